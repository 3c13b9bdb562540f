#include "trace/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace gpuman::trace {
namespace {

std::string_view FileOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsOwn(const MappedBinary& module) { return FileOf(module.path) == "libgpuman.so"; }

bool IsOfCuda(const Frame& frame) {
  const std::string_view file = FileOf(frame.module);
  return file.starts_with("libcuda.so") || file.starts_with("libcudart") || file.starts_with("libnvidia-");
}

const MappedBinary* FindModule(const ProcessTrace& process, std::uint64_t address) {
  const auto found = std::find_if(
      process.modules.begin(), process.modules.end(),
      [&](const MappedBinary& module) { return address >= module.begin && address < module.end; });
  return found != process.modules.end() ? &*found : nullptr;
}

// A frame without a name, and the module that can give it one.
struct Unnamed {
  Frame frame;
  const MappedBinary* module = nullptr;
};

std::vector<Unnamed> UnnamedFramesOf(const ProcessTrace& process, const CallStack& stack) {
  std::vector<Unnamed> frames;
  for (const std::uint64_t behind : stack.native) {
    const std::uint64_t address = behind - 1;  // in the call
    const MappedBinary* const module = FindModule(process, address);
    if (module != nullptr && IsOwn(*module)) continue;
    if (module != nullptr && module->interpreter && !stack.python.empty()) break;
    Unnamed one;
    one.module = module;
    one.frame.address = module != nullptr ? address - module->base : address;
    if (module != nullptr) one.frame.module = module->path;
    frames.push_back(std::move(one));
  }
  for (const PythonLine& line : stack.python) {
    const PythonFunction& function = process.functions[line.function];
    if (function.file == "<shim>") continue;  // of the interpreter of 3.12, between two calls
    Unnamed one;
    one.frame.python = true;
    one.frame.function = function.name;
    one.frame.file = function.file;
    one.frame.line = line.line;
    frames.push_back(std::move(one));
  }
  return frames;
}

// The index of the place; the number of frames: there is none.
std::size_t IndexOfPlace(const std::vector<Unnamed>& frames) {
  const auto first = [&](const auto& is) {
    return static_cast<std::size_t>(
        std::find_if(frames.begin(), frames.end(), [&](const Unnamed& one) { return is(one.frame); }) -
        frames.begin());
  };
  const std::size_t line = first([](const Frame& frame) { return frame.python; });
  if (line < frames.size()) return line;
  return first([](const Frame& frame) { return !frame.module.empty() && !IsOfCuda(frame); });
}

void Name(Unnamed& one, const NameFrame& name) {
  if (one.module != nullptr) name(*one.module, one.frame.address, one.frame);
}

}  // namespace

std::vector<Frame> FramesOf(const ProcessTrace& process, const CallStack& stack, const NameFrame& name) {
  std::vector<Frame> frames;
  for (Unnamed& one : UnnamedFramesOf(process, stack)) {
    Name(one, name);
    frames.push_back(std::move(one.frame));
  }
  return frames;
}

std::string PlaceTextOf(const ProcessTrace& process, const CallStack& stack, const NameFrame& name) {
  auto frames = UnnamedFramesOf(process, stack);
  const std::size_t index = IndexOfPlace(frames);
  if (index == frames.size()) return TextOf(nullptr);
  Name(frames[index], name);
  return TextOf(&frames[index].frame);
}

std::string TextOf(const Frame* place) {
  if (place == nullptr) return "unknown";
  const std::string file = place->line > 0 ? fmt::format("{}:{}", place->file, place->line) : place->file;
  if (place->python)
    return fmt::format("{} in {}", file.empty() ? "unknown" : file,
                       place->function.empty() ? "unknown" : place->function);
  if (place->function.empty()) return fmt::format("{}+{:#x}", FileOf(place->module), place->address);
  return fmt::format("{} ({})", place->function, file.empty() ? std::string(FileOf(place->module)) : file);
}

std::vector<AllocationSite> PlacesOf(const std::vector<ProcessTrace>& processes, const Moment& moment,
                                     const NameFrame& name) {
  std::map<std::string, AllocationSite> by_text;
  for (const auto& [ref, amount] : moment.held) {
    const ProcessTrace& process = processes[ref.process];
    std::string text = PlaceTextOf(process, process.stacks[ref.stack], name);
    AllocationSite& place = by_text[text];
    place.text = std::move(text);
    place.amount.bytes += amount.bytes;
    place.amount.allocations += amount.allocations;
    place.stacks.emplace_back(ref, amount);
  }
  std::vector<AllocationSite> places;
  for (auto& [text, place] : by_text) {
    std::stable_sort(place.stacks.begin(), place.stacks.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    places.push_back(std::move(place));
  }
  std::stable_sort(places.begin(), places.end(), [](const AllocationSite& a, const AllocationSite& b) {
    return a.amount.bytes > b.amount.bytes;
  });
  return places;
}

}  // namespace gpuman::trace
