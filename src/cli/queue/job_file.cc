// ReadJobs of request.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/queue_json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/parser.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/request.h"
#include "cli/queue/script.h"
#include "cli/queue/wording.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;

// Reads lines of options and a command. The words are split for the options; the command is the rest of the
// line, read as a shell reads it.
class LineReader {
 public:
  // `typed`: the options of every line.
  LineReader(const SubmitSettings& typed, const CommandDialect& dialect, base::WallTime now)
      : typed_(typed), options_(dialect.submit_options(settings_, now)), reader_(options_, true) {}

  base::Result<SubmitSettings> Read(std::string_view line) {
    GPUMAN_ASSIGN(const ShellWords words, SplitLine(line));
    settings_ = typed_;
    GPUMAN_ASSIGN(auto command, reader_.Read(words.texts));
    if (!command.empty() && command.front() == "--") command.erase(command.begin());
    if (command.empty())
      return base::Fail(ErrorCode::kInvalidArgument, "there is no command on this line",
                        "write OPTIONS -- COMMAND, such as --gpus 1 -- python train.py");
    GPUMAN_ASSIGN(settings_.job.command,
                  SplitCommand(line.substr(words.begins[words.texts.size() - command.size()])));
    return settings_;
  }

 private:
  const SubmitSettings& typed_;
  SubmitSettings settings_;
  const Options options_;
  OptionParser reader_;
};

// A Submission in JSON goes through the codec, so that the same checks apply as to a request.
base::Result<std::vector<SubmitSettings>> ReadJson(std::string_view text) {
  GPUMAN_ASSIGN(api::Json list, api::ParseJson(text));
  if (list.is_object()) list = api::Json::array({std::move(list)});
  api::Json request = api::Json::object();
  request["jobs"] = std::move(list);
  GPUMAN_ASSIGN(auto parsed, api::FromJson<api::SubmitRequest>(request));
  std::vector<SubmitSettings> jobs;
  for (auto& job : parsed.jobs) jobs.emplace_back().job = std::move(job);
  return jobs;
}

}  // namespace

base::Result<std::vector<SubmitSettings>> ReadJobs(std::string_view text, std::string_view name,
                                                   const SubmitSettings& typed, const CommandDialect& dialect,
                                                   base::WallTime now) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{}: there is no job in it", name));
  if (text[first] == '[') {
    auto jobs = ReadJson(text);
    if (!jobs) return base::Fail(std::move(jobs.error()).In(name));
    return jobs;
  }
  std::vector<SubmitSettings> jobs;
  LineReader lines(typed, dialect, now);
  for (int number = 1; !text.empty(); ++number) {
    const auto line = base::TakeUntil(text, '\n');
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    const auto where = fmt::format("{}:{}", name, number);
    if (line[begin] == '{') {
      auto read = ReadJson(line);
      if (!read) return base::Fail(std::move(read.error()).In(where));
      jobs.push_back(std::move(read->front()));
      jobs.back().origin = where;
      continue;
    }
    auto settings = lines.Read(line);
    if (!settings) return base::Fail(std::move(settings.error()).In(where));
    if (auto checked = api::Check(settings->job); !checked)
      return base::Fail(WithOptionNames(std::move(checked.error()), dialect).In(where));
    settings->origin = where;
    jobs.push_back(std::move(*settings));
  }
  if (jobs.empty())
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{}: there is no job in it", name));
  return jobs;
}

}  // namespace gpuman::cli::queue
