// MIG instances of the simulated GPUs: every process can make, destroy and find them.
//
// Each GPU instance is a device of its own in the arrays of Shared, so that memory and processes are counted
// for it as for a GPU. Changes take a lock that a dead process cannot keep; reads take none, and one store
// makes an instance visible. The id of an instance belongs to its place: a later instance there has the same
// id and UUID, as with the real driver.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/profiles/mig_tables.h"
#include "sim/state/layout.h"

namespace gpuman::sim {

struct MigCompute {
  unsigned id = 0;  // the first of its slices
  unsigned slices = 0;
};

struct MigInstance {
  unsigned index = 0;  // in Shared::mig
  unsigned gpu = 0;
  unsigned row = 0;    // of the GPU's table
  unsigned start = 0;  // first slice of the memory
  unsigned id = 0;     // within the GPU
  std::uint32_t compute = 0;
  unsigned device() const { return kMaxGpus + index; }
  std::vector<MigCompute> Computes() const;
  std::optional<MigCompute> Compute(unsigned id) const;
};

std::span<const MigProfile> MigProfilesOf(const Shared& shared, unsigned gpu);
const MigProfile& ProfileOf(const Shared& shared, const MigInstance& instance);
// The instance's memory on this GPU, for programs and the driver; less than in the table if the GPU was made
// smaller.
std::uint64_t MigMemory(const Shared& shared, unsigned gpu, const MigProfile& profile);

// The instances of one GPU, by place.
std::vector<MigInstance> MigInstances(const Shared& shared, unsigned gpu);
std::optional<MigInstance> MigInstanceAt(const Shared& shared, unsigned index);
std::string MigUuid(const Shared& shared, const MigInstance& instance, unsigned compute_id);

// The compute instance that "MIG-…" names.
struct MigDevice {
  MigInstance instance;
  MigCompute compute;
};
std::optional<MigDevice> FindMigDevice(const Shared& shared, std::string_view uuid);
// "NVIDIA H200 MIG 1g.18gb"; "… MIG 1c.3g.71gb" for a part of a GPU instance.
std::string MigName(const Shared& shared, const MigDevice& device);
// The compute instances of a GPU, in the driver's order.
std::vector<MigDevice> MigDevices(const Shared& shared, unsigned gpu);

enum class MigOutcome { kDone, kNoRoom, kInUse, kGone };

// How many more instances of the profile have room.
unsigned MigRemaining(const Shared& shared, unsigned gpu, unsigned row);
// Makes the instance at `start`, or at the first free place. kNoRoom also for an injected fault.
MigOutcome CreateMigInstance(Shared& shared, unsigned gpu, unsigned row, std::optional<unsigned> start,
                             MigInstance& made);
// kInUse while it has compute instances.
MigOutcome DestroyMigInstance(Shared& shared, unsigned index);
MigOutcome CreateMigCompute(Shared& shared, unsigned index, unsigned slices, unsigned& id);
// kInUse while a process has a context in it.
MigOutcome DestroyMigCompute(Shared& shared, unsigned index, unsigned id);
// What a reset does to the instances.
void RemoveMigInstances(Shared& shared, unsigned gpu);

}  // namespace gpuman::sim
