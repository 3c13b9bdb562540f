// What is right and wrong on a machine, from what was seen of it: a table of checks. Pure; thread-safe.
// docs/doctor.md has the same table, and a test holds the two together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace gpuman::doctor {

// Note: nothing is wrong, and something could be better. Unknown: it cannot be told here.
enum class Severity { kFine, kUnknown, kNote, kWarning, kError };
std::string_view ToString(Severity severity);  // "ok", "unknown", "note", "warning", "error"

struct Finding {
  std::string check{};
  Severity severity = Severity::kFine;
  std::string subject{};  // "GPU 0"; empty: the machine
  std::string text{};     // a sentence with the figures
  std::string remedy{};   // a command or what to do; empty: nothing
  friend bool operator==(const Finding&, const Finding&) = default;
};
using Findings = std::vector<Finding>;
// A check's whole answer, of the machine.
inline Findings OneFinding(Severity severity, std::string text, std::string remedy = {}) {
  return {{"", severity, "", std::move(text), std::move(remedy)}};
}

struct Check {
  std::string_view id;
  Findings (*examine)(const Facts& facts);  // `check` is filled in by Examine
};

// In the order in which they are shown.
std::span<const Check> Checks();
// Each check says something.
Findings Examine(const Facts& facts);
// Warnings and errors.
bool IsWrong(const Findings& findings);

}  // namespace gpuman::doctor
