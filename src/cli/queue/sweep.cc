#include "cli/queue/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;

constexpr std::size_t kMaxJobs = 100'000;

// Removes one field from the front of a CSV text. Afterwards `text` begins with the separator or a line end,
// or is empty.
base::Result<std::string> TakeField(std::string_view& text) {
  std::string field;
  if (!text.starts_with('"')) {
    const auto end = std::min(text.find_first_of(",\r\n"), text.size());
    field = text.substr(0, end);
    text.remove_prefix(end);
    return field;
  }
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != '"') {
      field += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '"') {
      field += '"';
      ++i;
      continue;
    }
    text.remove_prefix(i + 1);
    if (!text.empty() && text.find_first_of(",\r\n") != 0)
      return base::Fail(ErrorCode::kInvalidArgument, "there is text after a closing quote");
    return field;
  }
  return base::Fail(ErrorCode::kInvalidArgument, "a quote is never closed");
}

struct SweepRecord {
  int line = 0;
  std::vector<std::string> fields;
};

base::Result<std::vector<SweepRecord>> ReadRecords(std::string_view text) {
  std::vector<SweepRecord> records;
  int line = 1;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the byte order mark that spreadsheets write
  while (!text.empty()) {
    SweepRecord record{line, {}};
    const auto before = text;
    for (bool more = true; more;) {
      auto field = TakeField(text);
      if (!field) return base::Fail(std::move(field.error()).In(fmt::format("line {}", line)));
      record.fields.push_back(std::move(*field));
      more = text.starts_with(',');
      if (more) text.remove_prefix(1);
    }
    if (text.starts_with('\r')) text.remove_prefix(1);
    if (text.starts_with('\n')) text.remove_prefix(1);
    const auto taken = before.substr(0, before.size() - text.size());
    line += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    const bool blank =
        record.fields.size() == 1 && record.fields[0].find_first_not_of(" \t") == std::string::npos;
    if (!blank) records.push_back(std::move(record));
  }
  return records;
}

// Visits each text of a job that may contain parameters.
template <typename Visit>
void VisitTexts(api::Submission& job, Visit&& visit) {
  for (auto& word : job.command) visit(word);
  if (job.script) visit(*job.script);
  for (auto& word : job.arguments) visit(word);
  for (auto* text : {&job.name, &job.stdin_file, &job.stdout_file, &job.stderr_file})
    if (*text) visit(**text);
}

bool Has(std::string_view text, const std::string& name) {
  return Substitute(text, {{name, {}}}).size() != text.size();
}

}  // namespace

base::Result<std::vector<Combination>> ReadCsv(std::string_view text) {
  GPUMAN_ASSIGN(const auto records, ReadRecords(text));
  if (records.size() < 2)
    return base::Fail(ErrorCode::kInvalidArgument, "there is no line of values",
                      "the first line has the names, and each line below the values of one job");
  const auto& names = records.front().fields;
  std::set<std::string> seen;
  for (const auto& name : names)
    if (name.empty() || !seen.insert(name).second)
      return base::Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("line {}: the name '{}' is empty or there twice", records.front().line, name));
  std::vector<Combination> table;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto& [line, fields] = records[i];
    if (fields.size() != names.size())
      return base::Fail(ErrorCode::kInvalidArgument,
                        fmt::format("line {} has {} values for {} names", line, fields.size(), names.size()));
    Combination row;
    for (std::size_t k = 0; k < names.size(); ++k) row.emplace_back(names[k], fields[k]);
    table.push_back(std::move(row));
  }
  return table;
}

base::Result<std::vector<Combination>> Combine(const std::vector<Parameter>& parameters,
                                               const std::vector<Combination>& table) {
  std::vector<Combination> combinations = table.empty() ? std::vector<Combination>(1) : table;
  for (const auto& [name, values] : parameters) {
    for (const auto& [known, value] : combinations.front())
      if (known == name)
        return base::Fail(ErrorCode::kInvalidArgument,
                          fmt::format("the parameter '{}' is also in the file", name));
    if (combinations.size() * values.size() > kMaxJobs)
      return base::Fail(ErrorCode::kInvalidArgument,
                        fmt::format("the parameters have more than {} combinations", kMaxJobs));
    std::vector<Combination> product;
    product.reserve(combinations.size() * values.size());
    for (const auto& combination : combinations)
      for (const auto& value : values) product.emplace_back(combination).emplace_back(name, value);
    combinations = std::move(product);
  }
  return combinations;
}

std::string Substitute(std::string_view text, const Combination& values) {
  std::string out;
  while (!text.empty()) {
    const auto open = text.find('{');
    const auto close = text.find('}', open);
    if (close == std::string_view::npos) break;
    const auto name = text.substr(open + 1, close - open - 1);
    const auto it =
        std::find_if(values.begin(), values.end(), [&](const auto& pair) { return pair.first == name; });
    const bool is_shells = open > 0 && text[open - 1] == '$';
    out += text.substr(0, open);
    if (it != values.end() && !is_shells) {
      out += it->second;
      text.remove_prefix(close + 1);
    } else {
      out += '{';
      text.remove_prefix(open + 1);
    }
  }
  return out.append(text);
}

base::Result<std::vector<api::Submission>> MakeSweep(const api::Submission& job,
                                                     const std::vector<Combination>& combinations,
                                                     const std::optional<std::string>& name_template) {
  api::Submission pattern = job;
  if (name_template) pattern.name = name_template;
  for (const auto& [name, value] : combinations.front()) {
    bool used = false;
    VisitTexts(pattern, [&, &wanted = name](const std::string& text) { used = used || Has(text, wanted); });
    if (!used)
      return base::Fail(ErrorCode::kInvalidArgument,
                        fmt::format("no part of the job has the parameter '{}'", name),
                        fmt::format("write {{{}}} in the command where its value is to be", name));
  }
  const bool name_varies =
      pattern.name && std::any_of(combinations.front().begin(), combinations.front().end(),
                                  [&](const auto& pair) { return Has(*pattern.name, pair.first); });
  std::vector<api::Submission> jobs;
  jobs.reserve(combinations.size());
  for (const auto& combination : combinations) {
    api::Submission one = pattern;
    VisitTexts(one, [&](std::string& text) { text = Substitute(text, combination); });
    if (one.name && !name_varies && combinations.size() > 1)
      one.name = fmt::format("{}-{}", *one.name, jobs.size() + 1);
    jobs.push_back(std::move(one));
  }
  return jobs;
}

}  // namespace gpuman::cli::queue
