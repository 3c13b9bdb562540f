#include "spec/signal.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/text.h"

namespace gpuman::spec {
namespace {

using base::json::Json;

// Signals that a program can handle, and that mean nothing else to gpuman.
constexpr std::array<int, 8> kWarnings{SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCONT};

}  // namespace

std::string NameOf(Signal signal) {
  const char* const name = ::sigabbrev_np(signal.number);
  return name ? name : std::to_string(signal.number);
}

std::optional<Signal> SignalOf(std::string_view name) {
  std::string capitals = base::UpperCase(name);
  if (capitals.starts_with("SIG")) capitals.erase(0, 3);
  const auto* const found = std::find_if(kWarnings.begin(), kWarnings.end(),
                                         [&](int number) { return NameOf({number}) == capitals; });
  if (found == kWarnings.end()) return std::nullopt;
  return Signal{*found};
}

Json Write(const base::json::JsonFormat& format, const Signal& signal) {
  if (format.durations == base::json::DurationForm::kSeconds) return NameOf(signal);
  return signal.number;
}

void Read(base::json::ParseState& r, const base::json::FieldPath& path, const Json& json, Signal& out) {
  if (r.format.durations == base::json::DurationForm::kMillis)
    return base::json::Read(r, path, json, out.number);
  std::string name;
  base::json::Read(r, path, json, name);
  if (r.failed()) return;
  if (const auto signal = SignalOf(name))
    out = *signal;
  else
    r.Fail(path, fmt::format("'{}' is no signal that a program can be warned with", name));
}

}  // namespace gpuman::spec
