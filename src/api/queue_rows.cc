#include "api/queue_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::api {
namespace {

// How each kind of field is written and read; reading returns whether it succeeded.
void Put(std::string& text, const std::string& value) {
  for (const char c : value) {
    if (c == '\t')
      text += "\\t";
    else if (c == '\n')
      text += "\\n";
    else if (c == '\\')
      text += "\\\\";
    else
      text += c;
  }
}
template <std::integral T>
void Put(std::string& text, T value) {
  fmt::format_to(std::back_inserter(text), "{}", value);
}
void Put(std::string& text, JobState value) { text += ToString(value); }
void Put(std::string& text, base::Bytes value) { Put(text, value.count); }
void Put(std::string& text, base::Millis value) { Put(text, value.count()); }
void Put(std::string& text, base::WallTime value) { Put(text, value.time_since_epoch().count()); }
template <typename T>
void Put(std::string& text, const std::optional<T>& value) {
  if (value) Put(text, *value);
}

bool Take(std::string_view field, std::string& value) {
  value.clear();
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '\\') {
      value += field[i];
      continue;
    }
    if (++i == field.size()) return false;
    const char c = field[i];
    if (c != 't' && c != 'n' && c != '\\') return false;
    value += c == 't' ? '\t' : c == 'n' ? '\n' : '\\';
  }
  return true;
}
template <std::integral T>
bool Take(std::string_view field, T& value) {
  const auto number = base::ParseNumber<T>(field);
  if (number) value = *number;
  return number.has_value();
}
bool Take(std::string_view field, JobState& value) {
  const auto state = spec::JobStateFromString(field);
  if (state) value = *state;
  return state.has_value();
}
bool Take(std::string_view field, base::Bytes& value) { return Take(field, value.count); }
bool Take(std::string_view field, base::Millis& value) {
  std::int64_t count = 0;
  if (!Take(field, count)) return false;
  value = base::Millis(count);
  return true;
}
bool Take(std::string_view field, base::WallTime& value) {
  base::Millis since{};
  if (!Take(field, since)) return false;
  value = base::WallTime(since);
  return true;
}
template <typename T>
bool Take(std::string_view field, std::optional<T>& value) {
  value.reset();
  return field.empty() || Take(field, value.emplace());
}

// One list for writing and reading: calls visit(title, member) for each column.
template <typename Row, typename Visit>
void Columns(Row& row, Visit&& visit) {
  visit("id", row.id);
  visit("array_id", row.array_id);
  visit("array_task", row.array_task);
  visit("tag", row.tag);
  visit("user", row.user);
  visit("project", row.project);
  visit("state", row.state);
  visit("reason", row.reason);
  visit("priority", row.priority);
  visit("gpus_asked", row.gpus_asked);
  visit("gpus", row.gpus);
  visit("memory", row.memory);
  visit("host_memory", row.host_memory);
  visit("time_limit", row.time_limit);
  visit("submitted_at", row.submitted_at);
  visit("started_at", row.started_at);
  visit("ended_at", row.ended_at);
  visit("estimated_start", row.estimated_start);
  visit("position", row.position);
  visit("estimate_presumed", row.estimate_presumed);
}

}  // namespace

std::string QueueRowTitles() {
  std::string text;
  const QueueRow row;
  Columns(row, [&](std::string_view title, const auto&) {
    if (!text.empty()) text += '\t';
    text += title;
  });
  return text + '\n';
}

void AppendQueueRow(std::string& text, const QueueRow& row) {
  bool first = true;
  Columns(row, [&](std::string_view, const auto& value) {
    if (!first) text += '\t';
    first = false;
    Put(text, value);
  });
  text += '\n';
}

base::Result<std::vector<QueueRow>> ParseQueueRows(std::string_view text) {
  const auto bad = [](std::size_t line, std::string_view what) {
    return base::Fail(base::ErrorCode::kCorrupt, fmt::format("line {} of the list of jobs: {}", line, what));
  };
  std::string_view titles = base::TakeUntil(text, '\n');
  std::vector<std::string_view> names;
  while (!titles.empty()) names.push_back(base::TakeUntil(titles, '\t'));
  // The place of each column of QueueRow in a line; a member without a column keeps its default.
  std::vector<std::size_t> places;
  const QueueRow usual;
  Columns(usual, [&](std::string_view title, const auto&) {
    std::size_t place = 0;
    while (place < names.size() && names[place] != title) ++place;
    places.push_back(place);
  });
  if (places.front() == names.size()) return bad(1, "there is no column 'id'");

  std::vector<QueueRow> rows;
  rows.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  std::vector<std::string_view> fields;
  while (!text.empty()) {
    std::string_view line = base::TakeUntil(text, '\n');
    fields.clear();
    for (bool more = true; more;) {
      more = line.find('\t') != std::string_view::npos;
      fields.push_back(base::TakeUntil(line, '\t'));
    }
    if (fields.size() != names.size())
      return bad(rows.size() + 2, fmt::format("{} fields instead of {}", fields.size(), names.size()));
    std::size_t column = 0;
    std::string_view wrong;
    Columns(rows.emplace_back(), [&](std::string_view title, auto& value) {
      const std::size_t place = places[column++];
      if (place < fields.size() && wrong.empty() && !Take(fields[place], value)) wrong = title;
    });
    if (!wrong.empty()) return bad(rows.size() + 1, fmt::format("'{}' is not as it should be", wrong));
  }
  return rows;
}

}  // namespace gpuman::api
