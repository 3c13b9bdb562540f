// RenderCsv and RenderYaml of listing.h.
#include <fmt/format.h>

#include <set>

#include "cli/queue/listing.h"

namespace gpuman::cli::queue {
namespace {

// The fields of a record under their names in CSV and YAML.
std::vector<std::pair<std::string_view, std::string>> RecordOf(const api::QueueRow& row, base::WallTime now) {
  const auto number = [](const auto& value) { return value ? fmt::to_string(*value) : std::string(); };
  const auto time = [](const std::optional<base::WallTime>& at) {
    return at ? base::FormatIso8601(*at) : std::string();
  };
  const auto seconds = [](const std::optional<base::Millis>& value) {
    return value ? fmt::format("{}", static_cast<double>(value->count()) / 1000) : std::string();
  };
  const auto bytes = [](const std::optional<base::Bytes>& value) {
    return value ? fmt::to_string(value->count) : std::string();
  };
  return {{"id", fmt::to_string(row.id)},
          {"array_id", number(row.array_id)},
          {"array_task", number(row.array_task)},
          {"name", row.tag},
          {"user", row.user},
          {"project", row.project},
          {"state", std::string(spec::ToString(row.state))},
          {"reason", row.reason},
          {"priority", fmt::to_string(row.priority)},
          {"gpus_asked", fmt::to_string(row.gpus_asked)},
          {"gpus", row.gpus},
          {"memory", bytes(row.memory)},
          {"host_memory", bytes(row.host_memory)},
          {"time_s", seconds(RunTime(row, now))},
          {"time_limit_s", seconds(row.time_limit)},
          {"submitted_at", base::FormatIso8601(row.submitted_at)},
          {"started_at", time(row.started_at)},
          {"ended_at", time(row.ended_at)},
          {"estimated_start", time(row.estimated_start)},
          {"estimate_presumed", row.estimated_start ? row.estimate_presumed != 0 ? "true" : "false" : ""}};
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// A text in double quotes, as in JSON: a name such as "no" or "1e3" stays a text.
std::string YamlText(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string RenderCsv(const std::vector<JobListEntry>& jobs, base::WallTime now) {
  std::string text;
  const auto line = [&](const auto& record, auto part) {
    for (std::size_t i = 0; i < record.size(); ++i) text += (i == 0 ? "" : ",") + CsvField(part(record[i]));
    text += '\n';
  };
  line(RecordOf({}, now), [](const auto& field) { return std::string(field.first); });
  for (const auto& job : jobs) line(RecordOf(job.row, now), [](const auto& field) { return field.second; });
  return text;
}

std::string RenderYaml(const std::vector<JobListEntry>& jobs, base::WallTime now) {
  const std::set<std::string_view> texts{"name", "user",         "project",    "state",    "reason",
                                         "gpus", "submitted_at", "started_at", "ended_at", "estimated_start"};
  std::string text = jobs.empty() ? "jobs: []\n" : "jobs:\n";
  for (const auto& job : jobs) {
    const char* lead = "  - ";
    for (const auto& [name, value] : RecordOf(job.row, now)) {
      const bool is_text = texts.contains(name);
      const bool unknown = value.empty() && name != "name" && name != "user";
      text += fmt::format("{}{}: {}\n", lead, name, unknown ? "null" : is_text ? YamlText(value) : value);
      lead = "    ";
    }
  }
  return text;
}

}  // namespace gpuman::cli::queue
