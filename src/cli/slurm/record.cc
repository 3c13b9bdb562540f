#include "cli/slurm/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/json.h"
#include "base/file.h"
#include "base/json_number.h"

namespace gpuman::cli::slurm {
namespace {

using api::Json;
using base::Result;

constexpr std::size_t kLongestCommand = 4096;  // bytes of the command that are kept for display

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json TimeOrNull(const std::optional<base::WallTime>& time) {
  return time ? Json(base::FormatIso8601(*time)) : Json(nullptr);
}

Json ToJson(const Submitted& job) {
  Json json = Json::object();
  json["id"] = job.id;
  json["name"] = job.name;
  json["project"] = OrNull(job.project);
  json["submitted_at"] = base::FormatIso8601(job.submitted_at);
  json["array"] = job.array;
  json["command"] = job.command;
  json["directory"] = job.directory;
  json["output"] = job.output;
  json["errors"] = job.errors;
  json["ended"] = nullptr;
  if (!job.ended) return json;
  auto& ended = json["ended"] = Json::object();
  ended["state"] = job.ended->known ? Json(api::ToString(job.ended->state)) : Json(nullptr);
  ended["exit_code"] = OrNull(job.ended->exit_code);
  ended["signal"] = OrNull(job.ended->signal);
  ended["at"] = TimeOrNull(job.ended->at);
  return json;
}

std::string TextOf(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}
std::optional<int> IntOf(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() ? base::WholeNumber<int>(*it) : std::nullopt;
}
std::optional<base::WallTime> TimeOf(const Json& json, const char* key) {
  const auto time = base::ParseIso8601(TextOf(json, key));
  return time ? std::optional(*time) : std::nullopt;
}

std::optional<Ended> EndedOf(const Json& json) {
  const auto it = json.find("ended");
  if (it == json.end() || !it->is_object()) return std::nullopt;
  Ended ended;
  if (const auto state = api::JobStateFromString(TextOf(*it, "state"))) {
    ended.state = *state;
    ended.known = true;
  }
  ended.exit_code = IntOf(*it, "exit_code");
  ended.signal = IntOf(*it, "signal");
  ended.at = TimeOf(*it, "at");
  return ended;
}

std::optional<Submitted> FromLine(std::string_view line) {
  const auto json = api::ParseJson(line);
  if (!json || !json->is_object()) return std::nullopt;
  const auto found = json->find("id");
  const auto id = found != json->end() ? base::WholeNumber<std::uint32_t>(*found) : std::nullopt;
  if (!id) return std::nullopt;
  Submitted job;
  job.id = *id;
  job.name = TextOf(*json, "name");
  if (const auto project = TextOf(*json, "project"); !project.empty()) job.project = project;
  job.submitted_at = TimeOf(*json, "submitted_at").value_or(base::WallTime{});
  const auto array = json->find("array");
  job.array = array != json->end() && array->is_boolean() && array->get<bool>();
  if (const auto words = json->find("command"); words != json->end() && words->is_array())
    for (const auto& word : *words)
      if (word.is_string()) job.command.push_back(word.get<std::string>());
  job.directory = TextOf(*json, "directory");
  job.output = TextOf(*json, "output");
  job.errors = TextOf(*json, "errors");
  job.ended = EndedOf(*json);
  return job;
}

// Keeps the first words of a long command.
void Shorten(Submitted& job) {
  std::size_t size = 0;
  const auto end = std::find_if(job.command.begin(), job.command.end(), [&](const std::string& word) {
    size += word.size();
    return size > kLongestCommand;
  });
  if (end == job.command.end()) return;
  job.command.erase(end, job.command.end());
  job.command.emplace_back("…");
}

}  // namespace

std::vector<Submitted> ReadRecord(std::string_view text) {
  std::vector<Submitted> jobs;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (auto job = FromLine(text.substr(0, end))) jobs.push_back(std::move(*job));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return jobs;
}

std::string WriteRecord(const std::vector<Submitted>& jobs) {
  std::string text;
  for (const auto& job : jobs) text += api::Dump(ToJson(job)) + "\n";
  return text;
}

SubmissionFile SubmissionFile::OfUser(const base::EnvironmentLookup& environment) {
  const auto home = environment("HOME").value_or("/");
  return SubmissionFile(base::UserPaths(environment, ::geteuid(), home).state / "slurm.jsonl");
}

std::vector<Submitted> SubmissionFile::Jobs() const {
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  const auto text = base::ReadFile(file_, kLargest);
  return text ? ReadRecord(*text) : std::vector<Submitted>();
}

std::optional<Submitted> SubmissionFile::Find(std::uint32_t id) const {
  const auto jobs = Jobs();
  const auto it =
      std::find_if(jobs.rbegin(), jobs.rend(), [&](const Submitted& job) { return job.id == id; });
  return it != jobs.rend() ? std::optional(*it) : std::nullopt;
}

template <typename Change>
Result<> SubmissionFile::Write(Change change) const {
  constexpr mode_t kPrivate = 0700;
  GPUMAN_TRY(base::MakeDirectories(file_.parent_path(), kPrivate));
  auto lock_file = file_;
  lock_file += ".lock";
  GPUMAN_ASSIGN(const base::Fd lock, base::OpenFile(lock_file, O_RDWR | O_CREAT, 0600));
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) return base::FailSystem(errno, "locking " + lock_file.string());
  auto jobs = Jobs();
  change(jobs);
  return base::ReplaceFile(file_, WriteRecord(jobs), 0600);
}

Result<> SubmissionFile::Add(const Submitted& job) const {
  return Write([&](std::vector<Submitted>& jobs) {
    jobs.push_back(job);
    Shorten(jobs.back());
    while (jobs.size() > kMax) {
      const auto ended =
          std::find_if(jobs.begin(), jobs.end(), [](const Submitted& one) { return one.ended.has_value(); });
      jobs.erase(ended != jobs.end() ? ended : jobs.begin());
    }
  });
}

Result<> SubmissionFile::SetEnded(std::uint32_t id, const Ended& ended) const {
  return Write([&](std::vector<Submitted>& jobs) {
    const auto it =
        std::find_if(jobs.rbegin(), jobs.rend(), [&](const Submitted& job) { return job.id == id; });
    if (it != jobs.rend()) it->ended = ended;
  });
}

}  // namespace gpuman::cli::slurm
