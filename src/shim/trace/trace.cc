#include "shim/trace/trace.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ledger/wire/trace.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/libc/threads.h"
#include "shim/trace/stack.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

constexpr std::uint64_t kRoomForEnd = 64;  // of the file, for the record that says that it is full
constexpr std::size_t kMaxLive = std::size_t{1} << 20;
constexpr std::uint32_t kMaxRefusals = 1024;

// A child of a fork inherits its parent's descriptor, but the trace that names it is wiped. The child finds
// it here and closes it.
KeptFile left_file{-1, 0, 0};

std::uint64_t WallNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// A record, as it is put together.
class Record {
 public:
  explicit Record(wire::RecordKind kind) { Add(wire::RecordHead{kind, 0}); }

  template <typename T>
  void Add(const T& part) {
    Add(&part, sizeof part);
  }
  void Add(const void* part, std::size_t bytes) {
    if (bytes > sizeof bytes_ - size_) return;
    std::memcpy(bytes_ + size_, part, bytes);
    size_ += bytes;
  }
  // Pads the record and writes its size into it.
  void Close() {
    while (size_ % 8 != 0) bytes_[size_++] = 0;
    const auto size = static_cast<std::uint32_t>(size_);
    std::memcpy(bytes_ + offsetof(wire::RecordHead, bytes), &size, sizeof size);
  }
  const void* data() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  alignas(8) char bytes_[4096];
  std::size_t size_ = 0;
};
static_assert(sizeof(wire::RecordHead) + sizeof(wire::TraceStack) + 8 * wire::kMaxNativeFrames +
                      sizeof(wire::PythonFrame) * wire::kMaxPythonFrames <=
                  4096 &&
              sizeof(wire::RecordHead) + sizeof(wire::TracePythonFunction) + 2 * wire::kMaxTraceText + 8 <=
                  4096);

// The functions below are for a caller that holds trace.mutex.

void SetPhase(AllocationTraceState& trace, TracePhase phase) {
  __atomic_store_n(&trace.phase, static_cast<std::uint32_t>(phase), __ATOMIC_RELEASE);
}

bool IsOn(const AllocationTraceState& trace) { return PhaseOf(trace) == TracePhase::kOn; }

void End(AllocationTraceState& trace) {
  if (IsStill(trace.file)) ::close(trace.file.descriptor);
  trace.file.descriptor = -1;
  trace.stacks.Reset();
  trace.functions.Reset();
  trace.live.Reset();
  SetPhase(trace, TracePhase::kOff);
}

// A write beyond the process's own limit would end it by a signal.
bool HoldsFile(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

bool WriteBytes(AllocationTraceState& trace, const void* bytes, std::size_t size) {
  if (!HoldsFile(trace.written + size) || !IsStill(trace.file) ||
      ::write(trace.file.descriptor, bytes, size) != static_cast<ssize_t>(size)) {
    End(trace);
    return false;
  }
  trace.written += size;
  return true;
}

bool EndAsFull(AllocationTraceState& trace) {
  Record record(wire::RecordKind::kFull);
  record.Add(wire::TraceFull{NowNs()});
  record.Close();
  if (WriteBytes(trace, record.data(), record.size())) End(trace);
  return false;
}

bool Write(AllocationTraceState& trace, Record& record) {
  record.Close();
  if (!IsOn(trace)) return false;
  if (trace.written + record.size() + kRoomForEnd > wire::kMaxTraceBytes) return EndAsFull(trace);
  return WriteBytes(trace, record.data(), record.size());
}

bool HasEnded(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool ended = ::flock(file, LOCK_SH | LOCK_NB) == 0;
  ::close(file);
  return ended;
}

// Makes a file. Sets the bits of `gone` for files of processes that have ended.
int OpenNew(const char* directory, std::uint64_t& gone) {
  static_assert(wire::kMaxTraces <= 64);
  char path[4096];
  for (unsigned i = 0; i < wire::kMaxTraces; ++i) {
    const int length = std::snprintf(path, sizeof path, "%s/%u.trace", directory, i);
    if (length < 0 || length >= static_cast<int>(sizeof path)) return -1;
    const int file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0) ::flock(file, LOCK_EX | LOCK_NB);
    if (file >= 0 || errno != EEXIST) return file;
    if (HasEnded(path)) gone |= std::uint64_t{1} << i;
  }
  return -1;
}

void Begin(AllocationTraceState& trace, const char* directory) {
  trace.begun = true;
  if (IsStill(left_file)) ::close(left_file.descriptor);
  left_file.descriptor = -1;
  std::uint64_t gone = 0;
  const int opened = OpenNew(directory, gone);
  if (opened < 0) return End(trace);
  const int kept = ::fcntl(opened, F_DUPFD_CLOEXEC, kLowestKept);
  if (kept >= 0) ::close(opened);
  trace.file = left_file = Keep(kept >= 0 ? kept : opened);
  const std::uint64_t now = NowNs();
  trace.seed = Scramble(now ^ static_cast<std::uint64_t>(::getpid()) << 40);
  trace.pace.Begin(now);
  __atomic_store_n(&trace.mean, trace.pace.mean(), __ATOMIC_RELAXED);
  const wire::TraceHead head{wire::kTraceMagic,
                             wire::kTraceVersion,
                             static_cast<std::uint32_t>(::getpid()),
                             WallNs(),
                             now,
                             kFirstMean,
                             {}};
  if (!WriteBytes(trace, &head, sizeof head)) return;
  SetPhase(trace, TracePhase::kOn);
  for (unsigned i = 0; i < wire::kMaxTraces; ++i) {
    if ((gone >> i & 1) == 0) continue;
    Record record(wire::RecordKind::kGone);
    record.Add(wire::TraceProcessEnded{now, i, 0});
    if (!Write(trace, record)) return;
  }
}

bool NameDevice(AllocationTraceState& trace, const TracedDevice& device) {
  const std::uint64_t bit = std::uint64_t{1} << device.number;
  if ((trace.named_devices & bit) != 0) return true;
  wire::TraceDevice named{device.number, 0, {}};
  std::memcpy(named.uuid, device.uuid, sizeof named.uuid);
  Record record(wire::RecordKind::kDevice);
  record.Add(named);
  if (!Write(trace, record)) return false;
  trace.named_devices |= bit;
  return true;
}

bool IsKnown(const AllocationTraceState& trace, std::uint64_t address) {
  for (unsigned i = 0; i < trace.ranges; ++i) {
    if (address >= trace.range[i].begin && address < trace.range[i].end) return true;
  }
  return trace.ranges == sizeof trace.range / sizeof trace.range[0];  // no more fit
}

void WriteModule(AllocationTraceState& trace, const LoadedModule& module) {
  if (IsKnown(trace, module.begin)) return;
  Record record(wire::RecordKind::kModule);
  record.Add(wire::TraceModule{module.begin, module.end, module.base,
                               module.interpreter ? wire::kInterpreter : 0, module.id_bytes,
                               module.path_bytes});
  record.Add(module.id, module.id_bytes);
  record.Add(module.path, module.path_bytes);
  if (Write(trace, record)) trace.range[trace.ranges++] = {module.begin, module.end};
}

// Returns the number of the function; UINT32_MAX: the trace has ended.
std::uint32_t NumberOf(AllocationTraceState& trace, const PythonFunctionId& function) {
  const std::uint64_t hash = HashOf(function);
  if (const std::uint32_t* const known = trace.functions.Find(hash)) return *known;
  char file[wire::kMaxTraceText], name[wire::kMaxTraceText];
  const std::size_t file_bytes = ReadPythonText(function.file, file, sizeof file);
  const std::size_t name_bytes = ReadPythonText(function.name, name, sizeof name);
  Record record(wire::RecordKind::kCode);
  record.Add(wire::TracePythonFunction{static_cast<std::uint16_t>(file_bytes),
                                       static_cast<std::uint16_t>(name_bytes), 0});
  record.Add(file, file_bytes);
  record.Add(name, name_bytes);
  const auto number = static_cast<std::uint32_t>(trace.functions.size());
  std::uint32_t* const entry = trace.functions.Insert(hash);
  if (entry == nullptr) EndAsFull(trace);
  if (entry == nullptr || !Write(trace, record)) return UINT32_MAX;
  return *entry = number;
}

// Returns the number of the stack; UINT32_MAX: the trace has ended.
std::uint32_t WriteStack(AllocationTraceState& trace, std::uint64_t hash, const CallStack& stack) {
  wire::PythonFrame lines[wire::kMaxPythonFrames];
  for (unsigned i = 0; i < stack.python; ++i) {
    lines[i] = {NumberOf(trace, stack.line[i].function), stack.line[i].line};
    if (!IsOn(trace)) return UINT32_MAX;
  }
  const auto number = static_cast<std::uint32_t>(trace.stacks.size());
  std::uint32_t* const entry = number < wire::kMaxStacks ? trace.stacks.Insert(hash) : nullptr;
  if (entry == nullptr) {
    EndAsFull(trace);
    return UINT32_MAX;
  }
  *entry = number;
  Record record(wire::RecordKind::kStack);
  record.Add(wire::TraceStack{stack.native, stack.python});
  record.Add(stack.address, stack.native * sizeof stack.address[0]);
  record.Add(lines, stack.python * sizeof lines[0]);
  return Write(trace, record) ? number : UINT32_MAX;
}

// Returns false where there is no room for more.
bool Enter(AllocationTraceState& trace, std::uint64_t key, const AllocationTraceState::Live& allocation) {
  if (trace.live.size() >= kMaxLive) return false;
  AllocationTraceState::Live* const entry = trace.live.Insert(key);
  if (entry == nullptr) return false;
  if (entry->bytes != 0) trace.held[entry->device] -= entry->bytes;  // its end was not seen
  *entry = allocation;
  trace.held[allocation.device] += allocation.bytes;
  return true;
}

// The functions above are for a caller that holds trace.mutex; those below lock it.

// Finds out whether there is a trace.
bool BeginIfAsked(AllocationTraceState& trace) {
  const TracePhase phase = PhaseOf(trace);
  if (phase != TracePhase::kUnknown) return phase == TracePhase::kOn;
  const char* const directory = std::getenv(wire::kTraceVariable);
  if (directory == nullptr || directory[0] != '/') {
    SetPhase(trace, TracePhase::kOff);
    return false;
  }
  PrepareToWalk();
  const Locked lock(trace.mutex);
  if (!trace.begun) Begin(trace, directory);
  return IsOn(trace);
}

// Writes the modules of addresses that no module in the file has. The dynamic linker is asked without the
// mutex: another thread may come here out of a library that it loads.
void WriteModules(AllocationTraceState& trace, const CallStack& stack) {
  for (unsigned i = 0; i < stack.native; ++i) {
    {
      const Locked lock(trace.mutex);
      if (!IsOn(trace)) return;
      if (IsKnown(trace, stack.address[i])) continue;
    }
    LoadedModule module;
    if (!FindModule(stack.address[i], module)) continue;
    const Locked lock(trace.mutex);
    WriteModule(trace, module);
  }
}

// Walks the stack, and writes it where it is new. Returns its number; UINT32_MAX: the trace has ended.
std::uint32_t StackHere(AllocationTraceState& trace) {
  CallStack stack;
  WalkStack(stack);
  const std::uint64_t hash = HashOf(stack);
  {
    const Locked lock(trace.mutex);
    if (const std::uint32_t* const known = trace.stacks.Find(hash)) return *known;
  }
  WriteModules(trace, stack);
  const Locked lock(trace.mutex);
  if (!IsOn(trace)) return UINT32_MAX;
  if (const std::uint32_t* const known = trace.stacks.Find(hash)) return *known;
  return WriteStack(trace, hash, stack);
}

void Pay(AllocationTraceState& trace, std::uint64_t began, std::uint64_t now) {
  trace.pace.Took(began, now, LeastMean(trace.written, wire::kMaxTraceBytes));
  __atomic_store_n(&trace.mean, trace.pace.mean(), __ATOMIC_RELAXED);
}

}  // namespace

void TraceAllocated(AllocationTraceState& trace, const TracedDevice& device, std::uint64_t key,
                    std::uint64_t bytes) {
  const NoCancellation whole;
  if (!BeginIfAsked(trace)) return;
  const std::uint64_t mean = __atomic_load_n(&trace.mean, __ATOMIC_RELAXED);
  const std::uint64_t draw = __atomic_fetch_add(&trace.draws, 1, __ATOMIC_RELAXED);
  const bool drawn = IsDrawn(bytes, mean, Scramble(trace.seed + draw));
  const std::uint64_t began = drawn ? NowNs() : 0;
  const std::uint32_t stack = drawn ? StackHere(trace) : 0;
  const Locked lock(trace.mutex);
  if (!IsOn(trace) || stack == UINT32_MAX || !Enter(trace, key, {bytes, device.number, drawn}) || !drawn ||
      !NameDevice(trace, device))
    return;
  Record record(wire::RecordKind::kAllocated);
  record.Add(
      wire::TraceAllocated{NowNs(), key, bytes, mean, trace.held[device.number], stack, device.number});
  if (Write(trace, record)) Pay(trace, began, NowNs());
}

void TraceFreed(AllocationTraceState& trace, std::uint64_t key) {
  if (PhaseOf(trace) != TracePhase::kOn) return;
  const NoCancellation whole;
  const Locked lock(trace.mutex);
  AllocationTraceState::Live freed{};
  if (!IsOn(trace) || !trace.live.Take(key, freed)) return;
  trace.held[freed.device] -= freed.bytes;
  if (!freed.drawn) return;
  const std::uint64_t now = NowNs();
  Record record(wire::RecordKind::kFreed);
  record.Add(wire::TraceFreed{now, key, trace.held[freed.device]});
  if (Write(trace, record)) Pay(trace, now, NowNs());
}

void TraceRefused(AllocationTraceState& trace, const TracedDevice& device, std::uint64_t bytes) {
  const NoCancellation whole;
  if (!BeginIfAsked(trace) || __atomic_fetch_add(&trace.refusals, 1, __ATOMIC_RELAXED) >= kMaxRefusals)
    return;
  const std::uint64_t began = NowNs();
  const std::uint32_t stack = StackHere(trace);
  const Locked lock(trace.mutex);
  if (!IsOn(trace) || stack == UINT32_MAX || !NameDevice(trace, device)) return;
  Record record(wire::RecordKind::kRefused);
  record.Add(wire::TraceRefused{NowNs(), bytes, trace.held[device.number], stack, device.number});
  if (Write(trace, record)) Pay(trace, began, NowNs());
}

}  // namespace gpuman::shim
