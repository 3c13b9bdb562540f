// The output of the load: one line for each event, as JSON or as text. One write prints each line, so that
// the lines of several processes do not mix. Every event has the process and the time, in nanoseconds of
// CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace gpuman::load {

std::uint64_t MonotonicNs();

class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  // `fields` is an object.
  void Event(std::string_view name, const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());

  // Reports an error that ends the process; returns its exit status.
  int Failed(const base::Error& error);

 private:
  bool json_;
};

}  // namespace gpuman::load
