#include "cli/compat/slurm/actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using base::Result;

bool HasEnded(const JobLine& job) { return !job.state || spec::IsEnded(*job.state); }

Result<int> PrintNow(Session& session, const Engine& engine, const JobName& name) {
  GPUMAN_ASSIGN(const auto lines, LookUp(engine, name));
  for (const auto& line : lines) {
    if (session.json)
      session.PrintJson(ToJson(line));
    else
      session.Print(Sentence(line) + "\n");
  }
  return kExitDone;
}

// Slurm also holds a job that runs: the hold would only keep the job from starting again. The user does not
// mean that.
Result<> RequireWaiting(const Engine& engine, const JobName& name) {
  GPUMAN_ASSIGN(const auto lines, LookUp(engine, name));
  if (std::any_of(lines.begin(), lines.end(), IsWaiting)) return {};
  return base::Fail(ErrorCode::kConflict,
                    fmt::format("{}: only jobs that wait can be held and released", ToString(name)));
}

}  // namespace

Result<int> Show(Session& session, const Engine& engine, const JobName& name, bool first) {
  GPUMAN_ASSIGN(const auto lines, LookUp(engine, name));
  for (const auto& line : lines) {
    if (session.json)
      session.PrintJson(ToJson(line));
    else
      session.Print((std::exchange(first, false) ? "" : "\n") + RenderJob(line, session.style()));
  }
  return kExitDone;
}

Result<int> Hold(Session& session, const Engine& engine, const JobName& name) {
  GPUMAN_TRY(RequireWaiting(engine, name));
  GPUMAN_TRY(engine.programs.Hold(name));
  return PrintNow(session, engine, name);
}

Result<int> Release(Session& session, const Engine& engine, const JobName& name,
                    std::optional<base::Millis> from_now) {
  GPUMAN_TRY(RequireWaiting(engine, name));
  if (from_now) GPUMAN_TRY(engine.programs.SetBegin(name, *from_now));
  GPUMAN_TRY(engine.programs.Release(name));
  return PrintNow(session, engine, name);
}

Result<int> Refuse(const JobName& name, std::string_view command, std::string_view instead) {
  return base::Fail(ErrorCode::kUnsatisfiable,
                    fmt::format("{}: {} is for jobs of this machine's queue", ToString(name), command),
                    std::string(instead));
}

std::vector<Cancelled> Cancel(const Engine& engine, const std::vector<JobName>& names, bool dry_run) {
  std::vector<Cancelled> list;
  for (const auto& name : names) {
    auto& one = list.emplace_back(Cancelled{name, {}, {}});
    const auto lines = LookUp(engine, name);
    if (!lines) {
      one.error = lines.error();
      continue;
    }
    const auto open = std::find_if_not(lines->begin(), lines->end(), HasEnded);
    if (open == lines->end()) {
      one.error = base::Error{ErrorCode::kConflict, fmt::format("{}: it has ended", ToString(name)), {}};
      continue;
    }
    if (!dry_run)
      if (const auto done = engine.programs.Cancel(name); !done) {
        one.error = done.error();
        continue;
      }
    one.job = *open;
  }
  return list;
}

std::vector<JobName> TakeJobs(std::vector<std::string>& refs) {
  std::vector<JobName> names;
  for (const auto& ref : refs)
    if (const auto name = JobNameFromString(ref)) names.push_back(*name);
  std::erase_if(refs, [](const std::string& ref) { return JobNameFromString(ref).has_value(); });
  return names;
}

}  // namespace gpuman::cli::slurm
