#include "cli/queue/wording.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/commands.h"

namespace gpuman::cli::queue {
namespace {

struct FieldName {
  std::string field;   // of the API
  std::string option;  // its name on the command line
};

// Whether the field's name cannot be an ordinary word of a sentence.
bool IsUnmistakable(std::string_view field) { return field.find_first_of("._") != std::string_view::npos; }

// Adds the fields that the options set. Unmistakable names come first.
std::vector<FieldName> WithFieldsOf(const Options& options, std::vector<FieldName> fields) {
  for (const Option& option : options)
    if (!option.sets.empty()) fields.push_back({option.sets, NameOf(option)});
  std::partition(fields.begin(), fields.end(), [](const FieldName& f) { return IsUnmistakable(f.field); });
  return fields;
}

// The fields of a job: what the options of `submit` set, and what others set.
const std::vector<FieldName>& JobFields() {
  static const std::vector<FieldName> all = [] {
    SubmitSettings settings;
    return WithFieldsOf(SubmitOptions(settings, {}), {{"warn_signal", "--warn"},
                                                      {"memory_auto", "--memory auto"},
                                                      {"array_limit", "--array-limit"},
                                                      {"script", "--script"},
                                                      {"restart", "--restart"}});
  }();
  return all;
}

const std::vector<FieldName>& ReservationFields() {
  static const std::vector<FieldName> all = WithFieldsOf(ReserveCommands().front().options, {});
  return all;
}

// Where the fields of a job stand in a change and in a redo.
constexpr std::array<std::string_view, 2> kParents{"changes.", "queue."};

bool IsPartOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

std::string Reworded(std::string text, const std::vector<FieldName>& names, const CommandDialect& dialect) {
  for (const auto& [field, general] : names) {
    const std::string_view option = dialect.NameOf(general);
    if (!IsUnmistakable(field)) {
      if (text.starts_with(field) && text.substr(field.size(), 2) == ": ")
        return text.replace(0, field.size(), option);
      continue;
    }
    for (std::size_t at = 0; (at = text.find(field, at)) != std::string::npos;) {
      const auto end = at + field.size();
      const bool whole =
          (at == 0 || !IsPartOfName(text[at - 1])) && (end == text.size() || !IsPartOfName(text[end]));
      if (whole) text.replace(at, field.size(), option);
      at += whole ? option.size() : field.size();
    }
  }
  return text;
}

// gpuman's option for the field that a message begins with; empty: it begins with none.
std::string_view OptionOf(std::string_view message) {
  for (const auto& [field, option] : JobFields())
    if (message.starts_with(field) && message.substr(field.size()).starts_with(": ")) return option;
  return {};
}

}  // namespace

base::Error WithOptionNames(base::Error error, const CommandDialect& dialect) {
  for (const auto parent : kParents)
    if (error.message.starts_with(parent)) error.message.erase(0, parent.size());
  error.message = Reworded(std::move(error.message), JobFields(), dialect);
  error.hint = Reworded(std::move(error.hint), JobFields(), dialect);
  return error;
}

base::Error WithReservationOptions(base::Error error) {
  error.message = Reworded(std::move(error.message), ReservationFields(), kGpuman);
  return error;
}

base::Error WithOrigins(base::Error error, const std::vector<std::string>& origins,
                        const CommandDialect& dialect, const OptionLines& lines) {
  constexpr std::string_view kBegin = "jobs[";
  std::string_view rest = error.message;
  std::string origin;
  if (rest.starts_with(kBegin)) {
    rest.remove_prefix(kBegin.size());
    const auto place = base::TakeNumber<std::size_t>(rest);
    if (place && *place < origins.size() && !origins[*place].empty() &&
        (rest.starts_with("].") || rest.starts_with("]: "))) {
      origin = origins[*place] + ": ";
      error.message = rest.substr(rest.starts_with("].") ? 2 : 3);
    }
  }
  if (const auto line = lines.find(OptionOf(error.message)); line != lines.end() && !line->second.empty())
    origin = line->second + ": ";
  error = WithOptionNames(std::move(error), dialect);
  error.message.insert(0, origin);
  return error;
}

}  // namespace gpuman::cli::queue
