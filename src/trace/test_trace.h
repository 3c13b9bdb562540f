// Builds the bytes of a trace, as a shim writes them.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ledger/wire/trace.h"

namespace gpuman::trace {

class TraceBytes {
 public:
  static constexpr std::uint64_t kBegin = 1000;

  explicit TraceBytes(std::uint32_t process = 17, std::uint64_t begin = kBegin) {
    Append(ledger::wire::TraceHead{ledger::wire::kTraceMagic,
                                   ledger::wire::kTraceVersion,
                                   process,
                                   1'800'000'000'000'000'000,
                                   begin,
                                   1 << 19,
                                   {}});
  }

  TraceBytes& Device(std::uint32_t number, std::uint8_t last) {
    ledger::wire::TraceDevice device{number, 0, {}};
    device.uuid[15] = last;
    return Record(ledger::wire::RecordKind::kDevice, device);
  }
  TraceBytes& Module(std::uint64_t begin, std::uint64_t end, const std::string& path,
                     bool interpreter = false, const std::string& id = "id") {
    return Record(ledger::wire::RecordKind::kModule,
                  ledger::wire::TraceModule{begin, end, begin, interpreter ? ledger::wire::kInterpreter : 0,
                                            static_cast<std::uint16_t>(id.size()),
                                            static_cast<std::uint16_t>(path.size())},
                  id + path);
  }
  TraceBytes& Function(const std::string& file, const std::string& name) {
    return Record(ledger::wire::RecordKind::kCode,
                  ledger::wire::TracePythonFunction{static_cast<std::uint16_t>(file.size()),
                                                    static_cast<std::uint16_t>(name.size()), 0},
                  file + name);
  }
  TraceBytes& Stack(const std::vector<std::uint64_t>& native,
                    const std::vector<ledger::wire::PythonFrame>& python = {}) {
    std::string frames(reinterpret_cast<const char*>(native.data()), native.size() * 8);
    frames.append(reinterpret_cast<const char*>(python.data()), python.size() * sizeof python[0]);
    return Record(ledger::wire::RecordKind::kStack,
                  ledger::wire::TraceStack{static_cast<std::uint32_t>(native.size()),
                                           static_cast<std::uint32_t>(python.size())},
                  frames);
  }
  // `mean` of 1: it was surely drawn, and stands for itself.
  TraceBytes& Allocated(std::uint64_t at, std::uint64_t key, std::uint64_t size, std::uint32_t stack,
                        std::uint32_t device = 0, std::uint64_t mean = 1) {
    if (const auto old = live_.find(key); old != live_.end()) held_[old->second.first] -= old->second.second;
    held_[device] += size;
    live_[key] = {device, size};
    return Record(ledger::wire::RecordKind::kAllocated,
                  ledger::wire::TraceAllocated{at, key, size, mean, held_[device], stack, device});
  }
  // Of allocations that were not drawn.
  TraceBytes& Unseen(std::int64_t more, std::uint32_t device = 0) {
    held_[device] += static_cast<std::uint64_t>(more);
    return *this;
  }
  TraceBytes& Freed(std::uint64_t at, std::uint64_t key) {
    const auto [device, size] = live_[key];
    live_.erase(key);
    held_[device] -= size;
    return Record(ledger::wire::RecordKind::kFreed, ledger::wire::TraceFreed{at, key, held_[device]});
  }
  TraceBytes& Refused(std::uint64_t at, std::uint64_t size, std::uint32_t stack, std::uint32_t device = 0) {
    return Record(ledger::wire::RecordKind::kRefused,
                  ledger::wire::TraceRefused{at, size, held_[device], stack, device});
  }
  TraceBytes& Full(std::uint64_t at) {
    return Record(ledger::wire::RecordKind::kFull, ledger::wire::TraceFull{at});
  }
  TraceBytes& Gone(std::uint64_t at, std::uint32_t file) {
    return Record(ledger::wire::RecordKind::kGone, ledger::wire::TraceProcessEnded{at, file, 0});
  }

  template <typename T>
  TraceBytes& Record(ledger::wire::RecordKind kind, const T& part, const std::string& rest = "") {
    const std::size_t size = (sizeof(ledger::wire::RecordHead) + sizeof part + rest.size() + 7) / 8 * 8;
    const std::size_t before = bytes.size();
    Append(ledger::wire::RecordHead{kind, static_cast<std::uint32_t>(size)});
    Append(part);
    bytes += rest;
    bytes.resize(before + size);
    return *this;
  }

  std::string bytes;

 private:
  std::map<std::uint32_t, std::uint64_t> held_;                            // by device
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> live_;  // device and bytes, by key

  template <typename T>
  void Append(const T& part) {
    bytes.append(reinterpret_cast<const char*>(&part), sizeof part);
  }
};

}  // namespace gpuman::trace
