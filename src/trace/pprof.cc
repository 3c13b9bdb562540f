#include "trace/pprof.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/printable.h"

namespace gpuman::trace {
namespace {

// A message of protocol buffers.
class Message {
 public:
  void Number(unsigned field, std::uint64_t value) {
    if (value == 0) return;
    Varint(field << 3);
    Varint(value);
  }
  void Bytes(unsigned field, std::string_view bytes) {
    Varint(field << 3 | 2);
    Varint(bytes.size());
    bytes_ += bytes;
  }
  void Part(unsigned field, const Message& part) { Bytes(field, part.bytes_); }
  void Packed(unsigned field, const std::vector<std::uint64_t>& values) {
    Message list;
    for (const std::uint64_t value : values) list.Varint(value);
    Bytes(field, list.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80 | (value & 0x7f));
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// Texts of protocol buffers are UTF-8; a name of debug information may be anything.
std::string AsUtf8(std::string_view as_is, std::optional<char32_t> code) {
  return code ? std::string(as_is) : "\xef\xbf\xbd";
}

// Gives each value a number, in the order in which they come.
template <typename T>
class Numbers {
 public:
  explicit Numbers(std::uint64_t first) : next_(first) {}
  // Returns the number, and whether it is new.
  std::pair<std::uint64_t, bool> Of(const T& value) {
    const auto [place, is_new] = numbers_.try_emplace(value, next_);
    if (is_new) ++next_;
    return {place->second, is_new};
  }

 private:
  std::map<T, std::uint64_t> numbers_;
  std::uint64_t next_;
};

class Profile {
 public:
  Profile() { Text(""); }

  void Type(std::string_view type) { message_.Part(1, ValueType(type)); }
  void Default(std::string_view type) { message_.Number(14, Text(type)); }
  void Time(std::uint64_t nanoseconds) { message_.Number(9, nanoseconds); }
  // To be called before the first sample: readers take the first mapping for the program.
  void Program(const std::string& module) { Mapping(module); }

  void Sample(const std::vector<Frame>& frames, const std::vector<std::uint64_t>& values,
              std::string_view gpu) {
    std::vector<std::uint64_t> locations;
    locations.reserve(frames.size());
    for (const Frame& frame : frames) locations.push_back(Location(frame));
    Message sample, label;
    sample.Packed(1, locations);
    sample.Packed(2, values);
    label.Number(1, Text("gpu"));
    label.Number(2, Text(gpu));
    sample.Part(3, label);
    message_.Part(2, sample);
  }

  const std::string& bytes() const { return message_.bytes(); }

 private:
  std::uint64_t Text(std::string_view text) {
    const auto [number, is_new] = texts_.Of(std::string(text));
    if (is_new) message_.Bytes(6, base::WithInstead(text, AsUtf8));
    return number;
  }

  Message ValueType(std::string_view type) {
    Message message;
    message.Number(1, Text(type));
    message.Number(2, Text("bytes"));
    return message;
  }

  std::uint64_t Mapping(const std::string& module) {
    if (module.empty()) return 0;
    const auto [number, is_new] = mappings_.Of(module);
    if (!is_new) return number;
    Message mapping;
    mapping.Number(1, number);
    mapping.Number(5, Text(module));
    mapping.Number(7, 1);
    message_.Part(3, mapping);
    return number;
  }

  std::uint64_t Function(const std::string& name, const std::string& file) {
    const auto [number, is_new] = functions_.Of({name, file});
    if (!is_new) return number;
    Message function;
    function.Number(1, number);
    function.Number(2, Text(name));
    function.Number(4, Text(file));
    message_.Part(5, function);
    return number;
  }

  std::uint64_t Location(const Frame& frame) {
    const std::string name = frame.function.empty() ? TextOf(&frame) : frame.function;
    const std::uint64_t function = Function(name, frame.file);
    const std::uint64_t mapping = Mapping(frame.module);
    const auto [number, is_new] = locations_.Of({function, frame.line, mapping, frame.address});
    if (!is_new) return number;
    Message location, line;
    line.Number(1, function);
    line.Number(2, static_cast<std::uint64_t>(frame.line));
    location.Number(1, number);
    location.Number(2, mapping);
    location.Number(3, frame.address);
    location.Part(4, line);
    message_.Part(4, location);
    return number;
  }

  Message message_;
  Numbers<std::string> texts_{0}, mappings_{1};
  Numbers<std::pair<std::string, std::string>> functions_{1};
  Numbers<std::tuple<std::uint64_t, int, std::uint64_t, std::uint64_t>> locations_{1};
};

// The path of the program: of what is no shared library, or else of the interpreter; empty: not known.
std::string ProgramOf(const ProcessTrace& process) {
  std::string program;
  for (const MappedBinary& module : process.modules) {
    const bool is_library =
        std::filesystem::path(module.path).filename().string().find(".so") != std::string::npos;
    if (module.path.starts_with('/') && !is_library) return module.path;
    if (module.interpreter) program = module.path;
  }
  return program;
}

}  // namespace

std::string WritePprof(const std::vector<ProcessTrace>& processes, const std::vector<GpuTraceSummary>& gpus,
                       const NameFrame& name) {
  Profile profile;
  profile.Type("peak");
  profile.Type("refusal");
  profile.Default("peak");
  if (!processes.empty()) {
    profile.Time(processes.front().wall);
    profile.Program(ProgramOf(processes.front()));
  }
  for (const GpuTraceSummary& gpu : gpus) {
    std::map<StackRef, std::vector<std::uint64_t>> values;
    const auto add = [&](const Moment& moment, std::size_t place) {
      for (const auto& [stack, amount] : moment.held) {
        auto& row = values.try_emplace(stack, 2, 0).first->second;
        row[place] += static_cast<std::uint64_t>(std::llround(amount.bytes));
      }
    };
    add(gpu.peak, 0);
    if (gpu.refusal) add(gpu.refusal->then, 1);
    for (const auto& [ref, row] : values) {
      const ProcessTrace& process = processes[ref.process];
      profile.Sample(FramesOf(process, process.stacks[ref.stack], name), row, gpu.gpu);
    }
  }
  return profile.bytes();
}

}  // namespace gpuman::trace
