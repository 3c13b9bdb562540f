#include "sim/state/state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <utility>

#include "sim/profiles/profiles.h"
#include "sim/state/identity.h"
#include "sim/state/lifecycle.h"
#include "sim/state/memory.h"
#include "sim/state/mig.h"
#include "sim/state/sharing.h"

namespace gpuman::sim {
namespace {

std::string StatePath(const std::string& directory) { return directory + "/state"; }

// The drivers whose CUDA version profiles.h knows.
constexpr std::uint32_t kOldestDriver = 470, kNewestDriver = 629;

std::string Failure(const std::string& what, const std::string& path) {
  return "cannot " + what + " " + path + ": " + std::strerror(errno);
}

Expected<Shared*> Map(int fd, const std::string& path) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return tl::unexpected(Failure("map", path));
  return static_cast<Shared*>(memory);
}

template <std::size_t N>
void CopyText(char (&to)[N], std::string_view from) {
  const std::size_t size = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), size);
  to[size] = '\0';
}

// Applies "0-3,1-2", the GPUs that NVLink joins. Returns what is wrong with it, or nothing.
Expected<void> JoinByNvlink(Shared& shared, const std::string& groups) {
  for (GpuStatic& gpu : shared.gpu_static) gpu.nvlink_peers = 0;
  if (groups == "none") return {};
  std::istringstream list(groups);
  for (std::string group; std::getline(list, group, ',');) {
    std::uint32_t members = 0;
    std::istringstream numbers(group);
    for (std::string number; std::getline(numbers, number, '-');) {
      unsigned index = kMaxGpus;
      const auto end = number.data() + number.size();
      if (const auto [stopped, error] = std::from_chars(number.data(), end, index);
          error != std::errc{} || stopped != end || index >= shared.gpus)
        return tl::unexpected("nvlink must look like 0-3,1-2 with indices of GPUs, got " + groups);
      members |= 1u << index;
    }
    for (unsigned gpu = 0; gpu < shared.gpus; ++gpu)
      if ((members >> gpu & 1) != 0) shared.gpu_static[gpu].nvlink_peers |= members & ~(1u << gpu);
  }
  return {};
}

// The memory is zeroed pages of a new file: atomics start at 0, which their zeroed representation means.
Expected<void> Fill(Shared& shared, const CreateOptions& options) {
  const auto version = ParseDriverVersion(options.driver_version);
  if (!version)
    return tl::unexpected("driver version must look like 580.159.04, got " + options.driver_version);
  if (version->major < kOldestDriver || version->major > kNewestDriver)
    return tl::unexpected("driver " + options.driver_version + " is not simulated; " +
                          std::to_string(kOldestDriver) + " to " + std::to_string(kNewestDriver) + " are");
  if (options.gpus > kMaxGpus) {
    return tl::unexpected("number of GPUs must be 0 to " + std::to_string(kMaxGpus) + ", got " +
                          std::to_string(options.gpus));
  }
  shared.magic = kStateMagic;
  shared.version = kStateVersion;
  shared.size = sizeof(Shared);
  CopyText(shared.profile, options.profile);
  CopyText(shared.driver_version, options.driver_version);
  shared.driver_major = version->major;
  shared.driver_minor = version->minor;
  shared.driver_patch = version->patch;
  shared.cuda_version = CudaVersionOf(*version);
  shared.gpus = options.gpus;
  shared.machine_space = OwnSpace();
  shared.checkpoint_speed.store(options.checkpoint_speed);
  shared.restore_speed.store(options.restore_speed);
  for (unsigned gpu = 0; gpu < options.gpus; ++gpu) {
    GpuStatic& fixed = shared.gpu_static[gpu];
    if (!FillProfile(options.profile, gpu, fixed)) {
      return tl::unexpected("no profile named " + options.profile + "; there are " + ProfileNames());
    }
    if (options.memory_total != 0) {
      if (options.memory_total <= fixed.memory_reserved + fixed.context_overhead) {
        return tl::unexpected("memory of a " + options.profile + " must be more than " +
                              std::to_string(fixed.memory_reserved + fixed.context_overhead) +
                              " bytes, which the driver and one context take");
      }
      if (options.memory_total >= std::uint64_t{1} << 40)
        return tl::unexpected(std::string("memory must be less than 1 TiB"));
      fixed.memory_total = options.memory_total / kAccountingUnit * kAccountingUnit;
    }
    fixed.bus_to_device = options.bus_to_device[gpu];
    fixed.bus_to_host = options.bus_to_host[gpu];
    PowerOn(shared, gpu);
  }
  if (!options.nvlink.empty())
    if (auto joined = JoinByNvlink(shared, options.nvlink); !joined) return joined;
  shared.ready.store(1);
  return {};
}

}  // namespace

Expected<State> State::Create(const std::string& directory, const CreateOptions& options) {
  const std::string path = StatePath(directory);
  const std::string temporary = path + "." + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return tl::unexpected(Failure("create", temporary));
  // Other users' processes are clients too, independent of the umask.
  Expected<Shared*> mapped = tl::unexpected(std::string());
  if (fchmod(fd, 0666) != 0 || ftruncate(fd, sizeof(Shared)) != 0) {
    mapped = tl::unexpected(Failure("size", temporary));
  } else {
    mapped = Map(fd, temporary);
  }
  close(fd);
  Expected<void> filled = {};
  if (mapped) filled = Fill(**mapped, options);
  if (mapped && filled && link(temporary.c_str(), path.c_str()) != 0)
    filled = tl::unexpected(Failure("create", path));
  unlink(temporary.c_str());
  if (!mapped) return tl::unexpected(mapped.error());
  State state(*mapped);
  if (!filled) return tl::unexpected(filled.error());
  return state;
}

Expected<State> State::Open(const std::string& directory) {
  const std::string path = StatePath(directory);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return tl::unexpected(Failure("open", path));
  struct stat info {};
  Expected<Shared*> mapped = tl::unexpected(path + " is not the state of a simulated driver of this version");
  if (fstat(fd, &info) == 0 && info.st_size == static_cast<off_t>(sizeof(Shared))) mapped = Map(fd, path);
  close(fd);
  if (!mapped) return tl::unexpected(mapped.error());
  State state(*mapped);
  if (state->magic != kStateMagic || state->version != kStateVersion || state->size != sizeof(Shared) ||
      state->ready.load() == 0) {
    return tl::unexpected(path + " is not the state of a simulated driver of this version");
  }
  return state;
}

Expected<State> State::OpenFromEnvironment() {
  const char* directory = std::getenv(kDirectoryVariable);
  if (directory == nullptr || *directory == '\0') {
    return tl::unexpected(std::string(kDirectoryVariable) + " is not set: not under gpuman-sim exec");
  }
  return Open(directory);
}

State::State(State&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}

State& State::operator=(State&& other) noexcept {
  std::swap(shared_, other.shared_);
  return *this;
}

State::~State() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
}

namespace {

std::uint64_t ManagedBytes(const Shared& shared, unsigned gpu) {
  std::uint64_t bytes = 0;
  const std::uint32_t limit = shared.slot_limit.load();
  for (unsigned i = 0; i < limit; ++i) {
    const ProcessSlot& slot = shared.processes[i];
    const std::uint64_t owner = slot.owner.load();
    if (owner == 0 || slot.published.load() != owner) continue;
    bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(slot.gpu[gpu].managed.load(), 0));
  }
  return bytes;
}

}  // namespace

std::uint64_t DeviceCapacity(const Shared& shared, unsigned gpu) {
  return shared.gpu_static[gpu].memory_total - shared.gpu_static[gpu].memory_reserved;
}

std::uint64_t DeviceUsed(const Shared& shared, unsigned gpu) {
  const std::uint64_t accounted = UsedUnits(shared, gpu);
  const std::uint64_t held = (accounted - std::min(accounted, CountedAgain(shared, gpu))) * kAccountingUnit;
  const std::uint64_t capacity = DeviceCapacity(shared, gpu);
  std::uint64_t split = 0;  // of a GPU's instances
  for (const MigInstance& instance : MigInstances(shared, gpu))
    split += DeviceUsed(shared, instance.device());
  return split + held + std::min(ManagedBytes(shared, gpu), capacity - std::min(capacity, held));
}

std::uint64_t HeldBy(const Shared& shared, const ProcessSlot& slot, unsigned gpu) {
  const std::uint64_t accounted = HeldUnits(slot, gpu);
  return (accounted - std::min(accounted, PassedOn(shared, slot.owner.load(), gpu))) * kAccountingUnit;
}

}  // namespace gpuman::sim
