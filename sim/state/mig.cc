#include "sim/state/mig.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "sim/state/identity.h"
#include "sim/state/lifecycle.h"
#include "sim/state/state.h"

namespace gpuman::sim {
namespace {

constexpr unsigned kComputeBits = 4;
constexpr unsigned kComputeSlices = 8;
constexpr std::uint64_t kMiB = 1024 * 1024;

std::uint64_t Pack(const MigInstance& instance) {
  return std::uint64_t{1} << 63 | std::uint64_t{instance.gpu} << 24 | std::uint64_t{instance.row} << 16 |
         std::uint64_t{instance.start} << 8 | instance.id;
}

unsigned Byte(std::uint64_t word, unsigned shift) { return static_cast<unsigned>(word >> shift & 0xff); }

// Held while instances change.
class Lock {
 public:
  explicit Lock(Shared& shared) : shared_(shared), own_(OwnIdentity()) {
    const Sight sight(shared.machine_space);
    std::uint64_t owner = 0;
    while (!shared_.mig_lock.compare_exchange_strong(owner, own_)) {
      if (owner != 0 && sight.Find(owner)) {
        sched_yield();
        owner = 0;
      }
    }
  }
  ~Lock() { shared_.mig_lock.store(0); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Shared& shared_;
  const std::uint64_t own_;
};

std::uint32_t Bits(unsigned start, unsigned size) { return ((1u << size) - 1) << start; }

bool HasRoom(const Shared& shared, unsigned gpu, unsigned row, unsigned start) {
  const auto rows = MigProfilesOf(shared, gpu);
  const MigProfile& wanted = rows[row];
  if (start >= 32 || (wanted.starts >> start & 1) == 0) return false;
  unsigned same = 1, decoders = wanted.decoders, jpegs = wanted.jpegs, ofas = wanted.ofas;
  for (const MigInstance& there : MigInstances(shared, gpu)) {
    const MigProfile& profile = rows[there.row];
    if ((Bits(there.start, profile.size) & Bits(start, wanted.size)) != 0) return false;
    same += there.row == row ? 1 : 0;
    decoders += profile.decoders;
    jpegs += profile.jpegs;
    ofas += profile.ofas;
  }
  const MigProfile& whole = rows.back();
  return same <= wanted.most && decoders <= whole.decoders && jpegs <= whole.jpegs && ofas <= whole.ofas;
}

std::optional<unsigned> FindFreeStart(const Shared& shared, unsigned gpu, unsigned row) {
  for (unsigned start = 0; start < 32; ++start)
    if (HasRoom(shared, gpu, row, start)) return start;
  return std::nullopt;
}

bool Fails(GpuDynamic& gpu) {
  const std::uint32_t left = gpu.mig_create_fails_in.load();
  if (left == 0) return false;
  if (left == 1 && gpu.mig_create_fails_for_good.load() != 0) return true;
  return gpu.mig_create_fails_in.fetch_sub(1) == 1;
}

void Furnish(Shared& shared, const MigInstance& instance) {
  const MigProfile& profile = ProfileOf(shared, instance);
  const GpuStatic& parent = shared.gpu_static[instance.gpu];
  GpuStatic& fixed = shared.gpu_static[instance.device()];
  fixed = parent;
  const std::string name = std::string(parent.name) + " MIG " + profile.name;
  std::snprintf(fixed.name, sizeof fixed.name, "%s", name.c_str());
  fixed.memory_total = MigMemory(shared, instance.gpu, profile);
  fixed.memory_reserved = 12 * kMiB;
  fixed.context_overhead = std::min(parent.context_overhead, fixed.memory_total / 8);
  fixed.multiprocessors = profile.multiprocessors;
  fixed.mig_kind = 0;
  fixed.features &= ~std::uint64_t{kFeatureMig | kFeaturePeerAccess};
  fixed.nvlink_peers = 0;
  PowerOn(shared, instance.device());
}

bool HasContexts(Shared& shared, const MigInstance& instance, unsigned compute_id) {
  const Sight sight(shared.machine_space);
  const std::uint32_t limit = shared.slot_limit.load();
  for (std::uint32_t i = 0; i < limit; ++i) {
    const ProcessSlot& slot = shared.processes[i];
    const std::uint64_t owner = slot.owner.load();
    if (owner == 0 || slot.published.load() != owner) continue;
    const ProcessGpu& entry = slot.gpu[instance.device()];
    if (entry.contexts.load() != 0 && entry.compute_instance.load() == compute_id && sight.Find(owner))
      return true;
  }
  return false;
}

std::uint64_t Hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 14695981039346656037u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash ^ hash >> 29;
}

}  // namespace

std::vector<MigCompute> MigInstance::Computes() const {
  std::vector<MigCompute> all;
  for (unsigned at = 0; at < kComputeSlices; ++at)
    if (const unsigned slices = compute >> at * kComputeBits & 0xf; slices != 0) all.push_back({at, slices});
  return all;
}

std::optional<MigCompute> MigInstance::Compute(unsigned compute_id) const {
  for (const MigCompute& each : Computes())
    if (each.id == compute_id) return each;
  return std::nullopt;
}

std::span<const MigProfile> MigProfilesOf(const Shared& shared, unsigned gpu) {
  return MigProfiles(static_cast<MigKind>(shared.gpu_static[gpu].mig_kind));
}

const MigProfile& ProfileOf(const Shared& shared, const MigInstance& instance) {
  return MigProfilesOf(shared, instance.gpu)[instance.row];
}

std::uint64_t MigMemory(const Shared& shared, unsigned gpu, const MigProfile& profile) {
  const std::uint64_t whole = MigProfilesOf(shared, gpu).back().memory_mib;
  const std::uint64_t mib = std::min(whole, DeviceCapacity(shared, gpu) / kMiB) * profile.memory_mib / whole;
  return mib * kMiB;
}

std::optional<MigInstance> MigInstanceAt(const Shared& shared, unsigned index) {
  const std::uint64_t what = index < kMaxInstances ? shared.mig[index].what.load() : 0;
  if (what == 0) return std::nullopt;
  return MigInstance{index,         Byte(what, 24), Byte(what, 16),
                     Byte(what, 8), Byte(what, 0),  shared.mig[index].compute.load()};
}

std::vector<MigInstance> MigInstances(const Shared& shared, unsigned gpu) {
  std::vector<MigInstance> all;
  if (gpu >= kMaxGpus || shared.gpu_static[gpu].mig_kind == 0) return all;
  for (unsigned index = 0; index < kMaxInstances; ++index) {
    const auto instance = MigInstanceAt(shared, index);
    if (instance && instance->gpu == gpu) all.push_back(*instance);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  return all;
}

std::string MigUuid(const Shared& shared, const MigInstance& instance, unsigned compute_id) {
  const std::string what = std::string(shared.gpu_static[instance.gpu].uuid) + "/" +
                           ProfileOf(shared, instance).name + "/" + std::to_string(instance.id) + "/" +
                           std::to_string(compute_id);
  const std::uint64_t high = Hash(what, 0), low = Hash(what, 1);
  char text[48];
  std::snprintf(text, sizeof text, "MIG-%08x-%04x-5%03x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>(high >> 16 & 0xffff), static_cast<unsigned>(high & 0xfff),
                static_cast<unsigned>(0x8000 | (low >> 48 & 0x3fff)),
                static_cast<unsigned long long>(low & 0xffffffffffff));
  return text;
}

std::string MigName(const Shared& shared, const MigDevice& device) {
  const MigProfile& profile = ProfileOf(shared, device.instance);
  const bool whole = device.compute.slices == profile.slices;
  return std::string(shared.gpu_static[device.instance.gpu].name) + " MIG " +
         (whole ? "" : std::to_string(device.compute.slices) + "c.") + profile.name;
}

std::vector<MigDevice> MigDevices(const Shared& shared, unsigned gpu) {
  std::vector<MigDevice> devices;
  for (const MigInstance& instance : MigInstances(shared, gpu))
    for (const MigCompute& compute : instance.Computes()) devices.push_back({instance, compute});
  return devices;
}

std::optional<MigDevice> FindMigDevice(const Shared& shared, std::string_view uuid) {
  for (unsigned gpu = 0; gpu < shared.gpus; ++gpu)
    for (const MigDevice& device : MigDevices(shared, gpu))
      if (MigUuid(shared, device.instance, device.compute.id) == uuid) return device;
  return std::nullopt;
}

unsigned MigRemaining(const Shared& shared, unsigned gpu, unsigned row) {
  const MigProfile& profile = MigProfilesOf(shared, gpu)[row];
  unsigned same = 0, places = 0;
  std::uint32_t taken = 0;
  for (const MigInstance& there : MigInstances(shared, gpu)) {
    same += there.row == row ? 1 : 0;
    taken |= Bits(there.start, MigProfilesOf(shared, gpu)[there.row].size);
  }
  for (unsigned start = 0; start < 32; ++start) {
    if ((taken & Bits(start, profile.size)) != 0 || !HasRoom(shared, gpu, row, start)) continue;
    taken |= Bits(start, profile.size);
    ++places;
  }
  return std::min(places, profile.most - std::min(profile.most, same));
}

MigOutcome CreateMigInstance(Shared& shared, unsigned gpu, unsigned row, std::optional<unsigned> start,
                             MigInstance& made) {
  const Lock lock(shared);
  if (Fails(shared.gpu[gpu])) return MigOutcome::kNoRoom;
  if (!start) start = FindFreeStart(shared, gpu, row);
  if (!start || !HasRoom(shared, gpu, row, *start)) return MigOutcome::kNoRoom;
  for (unsigned index = 0; index < kMaxInstances; ++index) {
    if (shared.mig[index].what.load() != 0) continue;
    const bool is_whole = row + 1 == MigProfilesOf(shared, gpu).size();
    made = {index, gpu, row, *start, is_whole ? 0 : *start + 1, 0};
    Furnish(shared, made);
    shared.mig[index].compute.store(0);
    shared.mig[index].what.store(Pack(made));
    return MigOutcome::kDone;
  }
  return MigOutcome::kNoRoom;
}

MigOutcome DestroyMigInstance(Shared& shared, unsigned index) {
  const Lock lock(shared);
  const auto instance = MigInstanceAt(shared, index);
  if (!instance) return MigOutcome::kGone;
  if (instance->compute != 0) return MigOutcome::kInUse;
  shared.mig[index].what.store(0);
  return MigOutcome::kDone;
}

MigOutcome CreateMigCompute(Shared& shared, unsigned index, unsigned slices, unsigned& id) {
  const Lock lock(shared);
  const auto instance = MigInstanceAt(shared, index);
  if (!instance) return MigOutcome::kGone;
  const unsigned all = ProfileOf(shared, *instance).slices;
  std::uint32_t taken = 0;
  for (const MigCompute& there : instance->Computes()) taken |= Bits(there.id, there.slices);
  for (unsigned at = 0; at + slices <= all; ++at) {
    if ((taken & Bits(at, slices)) != 0) continue;
    shared.mig[index].compute.fetch_or(slices << at * kComputeBits);
    id = at;
    return MigOutcome::kDone;
  }
  return MigOutcome::kNoRoom;
}

MigOutcome DestroyMigCompute(Shared& shared, unsigned index, unsigned id) {
  const Lock lock(shared);
  const auto instance = MigInstanceAt(shared, index);
  if (!instance || !instance->Compute(id)) return MigOutcome::kGone;
  if (HasContexts(shared, *instance, id)) return MigOutcome::kInUse;
  shared.mig[index].compute.fetch_and(~(0xfu << id * kComputeBits));
  return MigOutcome::kDone;
}

void RemoveMigInstances(Shared& shared, unsigned gpu) {
  if (MigInstances(shared, gpu).empty()) return;
  const Lock lock(shared);
  for (const MigInstance& instance : MigInstances(shared, gpu)) shared.mig[instance.index].what.store(0);
}

}  // namespace gpuman::sim
