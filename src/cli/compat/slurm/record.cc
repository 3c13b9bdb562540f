#include "cli/compat/slurm/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace gpuman::cli::slurm {
namespace {

using base::Result;

constexpr std::size_t kLongestCommand = 4096;  // bytes of the command that are kept for display

constexpr base::json::JsonFormat kFormat{};

// Keeps the first words of a long command.
void Shorten(SubmissionRecord& job) {
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

template <typename V, base::json::Of<JobEnd> T>
void Fields(V& v, T& x) {
  std::optional<spec::JobState> state;
  if (!V::kReads && x.known) state = x.state;
  v("state", state);
  if constexpr (V::kReads) {
    x.known = state.has_value();
    if (state) x.state = *state;
  }
  v("exit_code", x.exit_code);
  v("signal", x.signal);
  v("at", x.at);
}

template <typename V, base::json::Of<SubmissionRecord> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("name", x.name);
  v("project", x.project);
  v("submitted_at", x.submitted_at);
  v("array", x.array);
  v("command", x.command);
  v("directory", x.directory);
  v("output", x.output);
  v("errors", x.errors);
  v("ended", x.ended);
}

std::vector<SubmissionRecord> ReadRecord(std::string_view text) {
  std::vector<SubmissionRecord> jobs;
  while (!text.empty()) {
    const auto line = base::TakeUntil(text, '\n');
    if (auto job = base::json::FromText<SubmissionRecord>(line, kFormat, "a job of Slurm"))
      jobs.push_back(std::move(*job));
  }
  return jobs;
}

std::string WriteRecord(const std::vector<SubmissionRecord>& jobs) {
  std::string text;
  for (const auto& job : jobs) text += base::json::ToText(job, kFormat) + "\n";
  return text;
}

SubmissionLog SubmissionLog::OfUser(const base::EnvironmentLookup& environment) {
  const auto home = environment("HOME").value_or("/");
  return SubmissionLog(base::UserPaths(environment, ::geteuid(), home).state / "slurm.jsonl");
}

std::vector<SubmissionRecord> SubmissionLog::Jobs() const {
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  const auto text = base::ReadFile(file_, kLargest);
  return text ? ReadRecord(*text) : std::vector<SubmissionRecord>();
}

std::optional<SubmissionRecord> SubmissionLog::Find(std::uint32_t id) const {
  const auto jobs = Jobs();
  const auto it =
      std::find_if(jobs.rbegin(), jobs.rend(), [&](const SubmissionRecord& job) { return job.id == id; });
  return it != jobs.rend() ? std::optional(*it) : std::nullopt;
}

template <typename Change>
Result<> SubmissionLog::Write(Change change) const {
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

Result<> SubmissionLog::Add(const SubmissionRecord& job) const {
  return Write([&](std::vector<SubmissionRecord>& jobs) {
    jobs.push_back(job);
    Shorten(jobs.back());
    while (jobs.size() > kMax) {
      const auto ended = std::find_if(jobs.begin(), jobs.end(),
                                      [](const SubmissionRecord& one) { return one.ended.has_value(); });
      jobs.erase(ended != jobs.end() ? ended : jobs.begin());
    }
  });
}

Result<> SubmissionLog::SetEnded(std::uint32_t id, const JobEnd& ended) const {
  return Write([&](std::vector<SubmissionRecord>& jobs) {
    const auto it =
        std::find_if(jobs.rbegin(), jobs.rend(), [&](const SubmissionRecord& job) { return job.id == id; });
    if (it != jobs.rend()) it->ended = ended;
  });
}

}  // namespace gpuman::cli::slurm
