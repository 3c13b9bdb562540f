#include "cli/queue/wording.h"

#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>

namespace gpuman::cli::queue {
namespace {

using FieldName = std::pair<std::string_view, std::string_view>;  // a field of the API, and its option

// A longer name stands before the names that it begins with.
constexpr std::array<FieldName, 42> kFieldNames{{
    {"time_limit_s", "--time"},
    {"warn_before_s", "--warn"},
    {"warn_signal", "--warn"},
    {"gpus.count", "--gpus"},
    {"gpus.devices", "--gpu"},
    {"gpus.model", "--gpu-model"},
    {"gpus.free_memory", "--gpu-free"},
    {"notify.webhooks", "--notify-url"},
    {"notify.mails", "--notify-mail"},
    {"notify.on", "--notify-on"},
    {"retries.count", "--retries"},
    {"retries.delay_s", "--retry-delay"},
    {"retries.on_exit_codes", "--retry-on"},
    {"host_memory", "--host-memory"},
    {"stdin", "--input"},
    {"stdout", "--output"},
    {"stderr", "--error"},
    {"max_concurrent", "--max-concurrent"},
    {"conda_env", "--conda-env"},
    {"device_profile", "--device-profile"},
    {"mps_threads", "--mps-threads"},
    {"auto_cancel", "--auto-cancel"},
    {"array_limit", "--array-limit"},
    {"command", "--command"},
    {"script", "--script"},
    {"grace", "--grace"},
    {"array", "--array"},
    {"begin", "--begin"},
    {"cpus", "--cpus"},
    {"depends", "--depends"},
    {"directory", "--directory"},
    {"group", "--group"},
    {"memory_auto", "--memory auto"},
    {"memory", "--memory"},
    {"mps", "--mps"},
    {"name", "--name"},
    {"priority", "--priority"},
    {"project", "--project"},
    {"restart", "--restart"},
    {"share", "--share"},
    {"soft", "--soft"},
    {"weight", "--weight"},
}};

constexpr std::array<FieldName, 5> kReservationNames{{
    {"duration_s", "--duration"},
    {"count", "--gpus"},
    {"devices", "--gpu"},
    {"start", "--start"},
    {"user", "--user"},
}};

// Where the fields of a job stand in a change and in a redo.
constexpr std::array<std::string_view, 2> kPlaces{"changes.", "queue."};

std::string_view OptionFor(std::string_view field, std::string_view option, Flavour flavour) {
  if (flavour != Flavour::kGflow) return option;
  return field == "memory" ? "--gpu-memory" : field == "host_memory" ? "--memory" : option;
}

bool IsPartOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

// Whether the field's name cannot be an ordinary word of a sentence.
bool IsUnmistakable(std::string_view field) { return field.find_first_of("._") != std::string_view::npos; }

std::string Reworded(std::string text, std::span<const FieldName> names, Flavour flavour) {
  for (const auto& [field, general] : names) {
    const auto option = OptionFor(field, general, flavour);
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
  for (const auto& [field, option] : kFieldNames)
    if (message.starts_with(field) && message.substr(field.size()).starts_with(": ")) return option;
  return {};
}

}  // namespace

base::Error WithOptionNames(base::Error error, Flavour flavour) {
  for (const auto place : kPlaces)
    if (error.message.starts_with(place)) error.message.erase(0, place.size());
  error.message = Reworded(std::move(error.message), kFieldNames, flavour);
  error.hint = Reworded(std::move(error.hint), kFieldNames, flavour);
  return error;
}

base::Error WithReservationOptions(base::Error error) {
  error.message = Reworded(std::move(error.message), kReservationNames, Flavour::kGpuman);
  return error;
}

base::Error WithOrigins(base::Error error, const std::vector<std::string>& origins, Flavour flavour,
                        const OptionLines& lines) {
  constexpr std::string_view kBegin = "jobs[";
  std::string_view rest = error.message;
  std::string origin;
  if (rest.starts_with(kBegin)) {
    rest.remove_prefix(kBegin.size());
    std::size_t place = 0;
    const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), place);
    const auto behind = rest.substr(static_cast<std::size_t>(end - rest.data()));
    if (failed == std::errc{} && place < origins.size() && !origins[place].empty() &&
        (behind.starts_with("].") || behind.starts_with("]: "))) {
      origin = origins[place] + ": ";
      error.message = behind.substr(behind.starts_with("].") ? 2 : 3);
    }
  }
  if (const auto line = lines.find(OptionOf(error.message)); line != lines.end() && !line->second.empty())
    origin = line->second + ": ";
  error = WithOptionNames(std::move(error), flavour);
  error.message.insert(0, origin);
  return error;
}

}  // namespace gpuman::cli::queue
