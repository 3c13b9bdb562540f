// A signal by which a job's processes are warned. In requests and answers it has its name ("USR1"), in
// records its number.
//
// Plain values and pure functions; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace gpuman::spec {

struct Signal {
  int number = 0;
  friend bool operator==(const Signal&, const Signal&) = default;
};

// The name without SIG: "USR1"; the number as text where the signal has no name.
std::string NameOf(Signal signal);
// Parses "usr1", "USR1" or "SIGUSR1". nullopt: no signal that can warn a program has this name.
std::optional<Signal> SignalOf(std::string_view name);

// For base/json.h.
base::json::Json Write(const base::json::JsonFormat& format, const Signal& signal);
void Read(base::json::ParseState& r, const base::json::FieldPath& path, const base::json::Json& json,
          Signal& out);

}  // namespace gpuman::spec
