// A table of checks over the facts about a machine. Pure; thread-safe. docs/doctor.md has the same table, and
// a test compares the two.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace gpuman::doctor {

// kNote: the machine works, but a setting could be better. kUnknown: this machine does not show the fact.
enum class Severity { kFine, kUnknown, kNote, kWarning, kError };
std::string_view ToString(Severity severity);  // "ok", "unknown", "note", "warning", "error"

struct Finding {
  std::string check{};
  Severity severity = Severity::kFine;
  std::string subject{};  // "GPU 0"; empty: the machine
  std::string text{};     // a sentence with the figures
  std::string remedy{};   // a command or another instruction; empty: nothing to do
  friend bool operator==(const Finding&, const Finding&) = default;
};
using Findings = std::vector<Finding>;
// The only finding of a check, about the machine.
inline Findings OneFinding(Severity severity, std::string text, std::string remedy = {}) {
  return {{"", severity, "", std::move(text), std::move(remedy)}};
}

struct Check {
  std::string_view id;
  Findings (*examine)(const Facts& facts);  // Examine fills in `check`
};

// In the order of the output.
std::span<const Check> Checks();
// Each check has at least one finding.
Findings Examine(const Facts& facts);
// Whether there are warnings or errors.
bool IsWrong(const Findings& findings);

}  // namespace gpuman::doctor
