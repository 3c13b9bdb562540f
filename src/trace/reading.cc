#include "trace/reading.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/fd.h"
#include "base/untrusted_file.h"
#include "base/utf8.h"
#include "base/uuid.h"
#include "ledger/wire/trace.h"

namespace gpuman::trace {
namespace {

namespace wire = ledger::wire;
using base::ErrorCode;
using base::Result;

base::Error Corrupt(const std::string& what) { return {ErrorCode::kCorrupt, what, ""}; }

// Takes values from the front of a record.
class Record {
 public:
  explicit Record(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  bool Take(T& value) {
    if (bytes_.size() < sizeof value) return false;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return true;
  }
  bool Take(std::string& text, std::size_t size) {
    if (bytes_.size() < size) return false;
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view bytes_;
};

// The names are shown, and written as JSON.
std::string Readable(const std::string& text) {
  std::string readable;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = base::Utf8CharacterAt(text, at).length;
    if (length == 0)
      readable += '?';
    else
      readable.append(text, at, length);
    at += length == 0 ? 1 : length;
  }
  return readable;
}

class Reader {
 public:
  explicit Reader(ProcessTrace& trace) : trace_(trace) {}

  // Returns false where the record makes no sense.
  bool Read(wire::RecordKind kind, Record record) {
    switch (kind) {
      case wire::RecordKind::kDevice:
        return Device(record);
      case wire::RecordKind::kModule:
        return AddModule(record);
      case wire::RecordKind::kCode:
        return Function(record);
      case wire::RecordKind::kStack:
        return Stack(record);
      case wire::RecordKind::kAllocated:
        return Allocated(record);
      case wire::RecordKind::kFreed:
        return Freed(record);
      case wire::RecordKind::kRefused:
        return Refused(record);
      case wire::RecordKind::kGone:
        return Gone(record);
      case wire::RecordKind::kFull:
        trace_.end = TraceEnd::kFull;
        return true;
    }
    return true;  // of a newer shim
  }

 private:
  bool Device(Record& record) {
    wire::TraceDevice device{};
    if (!record.Take(device) || gpus_.size() >= 64) return false;
    gpus_[device.device] = static_cast<std::uint16_t>(trace_.gpus.size());
    trace_.gpus.push_back("GPU-" + base::FormatUuid(device.uuid));
    return true;
  }

  bool AddModule(Record& record) {
    wire::TraceModule told{};
    MappedBinary module;
    if (!record.Take(told) || !record.Take(module.build_id, told.build_id) ||
        !record.Take(module.path, told.path) || told.begin >= told.end)
      return false;
    module.begin = told.begin;
    module.end = told.end;
    module.base = told.base;
    module.interpreter = (told.flags & wire::kInterpreter) != 0;
    if (module.path.find('\0') != std::string::npos) return false;
    module.path = Readable(module.path);
    trace_.modules.push_back(std::move(module));
    return true;
  }

  bool Function(Record& record) {
    wire::TracePythonFunction told{};
    PythonFunction function;
    if (!record.Take(told) || !record.Take(function.file, told.file) ||
        !record.Take(function.name, told.name))
      return false;
    function.file = Readable(function.file);
    function.name = Readable(function.name);
    trace_.functions.push_back(std::move(function));
    return true;
  }

  bool Stack(Record& record) {
    wire::TraceStack told{};
    if (!record.Take(told) || told.native > wire::kMaxNativeFrames || told.python > wire::kMaxPythonFrames)
      return false;
    CallStack stack;
    stack.native.resize(told.native);
    for (auto& address : stack.native)
      if (!record.Take(address)) return false;
    for (std::uint32_t i = 0; i < told.python; ++i) {
      wire::PythonFrame frame{};
      if (!record.Take(frame) || frame.code >= trace_.functions.size()) return false;
      stack.python.push_back({frame.code, std::max(frame.line, 0)});
    }
    trace_.stacks.push_back(std::move(stack));
    return true;
  }

  bool Place(std::uint32_t device, std::uint32_t stack, TraceEvent& event) const {
    const auto gpu = gpus_.find(device);
    if (gpu == gpus_.end() || stack >= trace_.stacks.size()) return false;
    event.gpu = gpu->second;
    event.stack = stack;
    return true;
  }

  // Threads write in another order than they look at the clock.
  bool Add(TraceEvent event) {
    if (event.at < trace_.monotonic) return false;
    trace_.events.push_back(event);
    return true;
  }

  bool Allocated(Record& record) {
    wire::TraceAllocated told{};
    TraceEvent event;
    if (!record.Take(told) || told.bytes == 0 || told.mean == 0 || told.bytes > kMaxBytes ||
        told.held > kMaxBytes || told.held < told.bytes || !Place(told.device, told.stack, event))
      return false;
    event.at = told.at;
    event.key = told.key;
    event.bytes = told.bytes;
    event.held = told.held;
    const double drawn = -std::expm1(-static_cast<double>(told.bytes) / static_cast<double>(told.mean));
    event.weight = 1 / drawn;
    return std::isfinite(event.weight) && event.weight * static_cast<double>(told.bytes) < kMaxBytes &&
           Add(event);
  }

  bool Freed(Record& record) {
    wire::TraceFreed told{};
    if (!record.Take(told) || told.held > kMaxBytes) return false;
    TraceEvent event;
    event.kind = TraceEvent::Kind::kFreed;
    event.at = told.at;
    event.key = told.key;
    event.held = told.held;
    return Add(event);
  }

  bool Refused(Record& record) {
    wire::TraceRefused told{};
    TraceEvent event;
    event.kind = TraceEvent::Kind::kRefused;
    if (!record.Take(told) || told.bytes > kMaxBytes || told.held > kMaxBytes ||
        !Place(told.device, told.stack, event))
      return false;
    event.at = told.at;
    event.bytes = told.bytes;
    event.held = told.held;
    return Add(event);
  }

  bool Gone(Record& record) {
    wire::TraceProcessEnded told{};
    if (!record.Take(told)) return false;
    TraceEvent event;
    event.kind = TraceEvent::Kind::kGone;
    event.at = told.at;
    event.key = told.file;
    return Add(event);
  }

  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;

  ProcessTrace& trace_;
  std::map<std::uint32_t, std::uint16_t> gpus_;  // indices, by the process's numbers
};

// Reads a file that its owner may replace or change while it is read.
Result<std::string> ReadFileIn(int directory, const std::string& name) {
  GPUMAN_ASSIGN(const base::Fd file, base::OpenUntrustedFileIn(directory, name));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return base::FailSystem(errno, "looking at it");
  const auto size = std::min(static_cast<std::uint64_t>(status.st_size), wire::kMaxTraceBytes);
  std::string bytes(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::pread(file.get(), bytes.data() + got, size - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::FailSystem(errno, "reading it");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace

base::WallTime ProcessTrace::WallOf(std::uint64_t at) const {
  const std::uint64_t since = at - std::min(at, monotonic);
  return base::WallTime{} +
         std::chrono::milliseconds(static_cast<std::int64_t>(wall / 1'000'000 + since / 1'000'000));
}

Result<ProcessTrace> ParseTrace(std::string_view bytes) {
  wire::TraceHead head{};
  if (bytes.size() < sizeof head) return base::Fail(Corrupt("its head is not whole"));
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != wire::kTraceMagic) return base::Fail(Corrupt("it is no trace of allocations"));
  if (head.version != wire::kTraceVersion)
    return base::Fail(ErrorCode::kNotSupported,
                      fmt::format("it has version {}, not {}", head.version, wire::kTraceVersion));
  constexpr std::uint64_t kLatest = std::uint64_t{1} << 62;
  if (head.wall > kLatest || head.monotonic > kLatest) return base::Fail(Corrupt("its times make no sense"));
  ProcessTrace trace;
  trace.pid = head.process;
  trace.wall = head.wall;
  trace.monotonic = head.monotonic;
  Reader reader(trace);
  std::size_t at = sizeof head;
  while (at < bytes.size() && trace.end == TraceEnd::kWhole) {
    wire::RecordHead record{};
    const std::string_view rest = bytes.substr(at);
    if (rest.size() < sizeof record) {
      trace.end = TraceEnd::kTorn;
      break;
    }
    std::memcpy(&record, rest.data(), sizeof record);
    if (record.bytes < sizeof record || record.bytes % 8 != 0)
      return base::Fail(Corrupt(fmt::format("the record at byte {} has no size", at)));
    if (record.bytes > rest.size()) {
      trace.end = TraceEnd::kTorn;
      break;
    }
    if (!reader.Read(record.kind, Record(rest.substr(sizeof record, record.bytes - sizeof record))))
      return base::Fail(Corrupt(fmt::format("the record at byte {} makes no sense", at)));
    at += record.bytes;
  }
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.at < b.at; });
  return trace;
}

Result<JobTraces> ReadTraces(const std::filesystem::path& path) {
  const base::Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory.ok()) return base::FailSystem(errno, "opening " + path.string());
  JobTraces traces;
  for (unsigned i = 0; i < wire::kMaxTraces; ++i) {
    const std::string name = fmt::format("{}.trace", i);
    auto bytes = ReadFileIn(directory.get(), name);
    if (!bytes && bytes.error().code == ErrorCode::kNotFound) break;
    auto trace = bytes ? ParseTrace(*bytes) : Result<ProcessTrace>(base::Fail(std::move(bytes.error())));
    if (trace) trace->number = i;
    if (trace)
      traces.processes.push_back(std::move(*trace));
    else
      traces.notes.push_back(fmt::format("{} could not be read: {}", name, trace.error().message));
  }
  if (traces.processes.size() == wire::kMaxTraces)
    traces.notes.push_back(
        fmt::format("of more than {} processes the first ones are in it", wire::kMaxTraces));
  return traces;
}

}  // namespace gpuman::trace
