// Queue::Find: a job of Slurm, for the commands about jobs. follow.h follows it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "cli/compat/slurm/follow.h"
#include "cli/compat/slurm/slurm_queue.h"

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using base::Result;

bool HasEnded(const SlurmJobView& job) { return !job.state || spec::IsEnded(*job.state); }

class Job final : public queue::ExternalJobHandle {
 public:
  Job(CommandContext& session, const SlurmJobId& name) : session_(session), engine_(session), name_(name) {}

  std::string Name() const override { return ToString(name_); }

  Result<int> Show(bool first) override {
    GPUMAN_ASSIGN(const auto lines, LookUp(engine_, name_));
    for (const auto& line : lines) {
      if (session_.json)
        session_.PrintJson(ToJson(line));
      else
        session_.Print((std::exchange(first, false) ? "" : "\n") + RenderJob(line, session_.style()));
    }
    return kExitDone;
  }

  Result<int> Log(const queue::LogSettings& settings) override {
    return slurm::Log(session_, engine_, name_, settings);
  }
  Result<int> Attach() override { return slurm::Attach(session_, engine_, name_); }
  Result<int> Wait() override { return slurm::Wait(session_, engine_, name_); }

  Result<int> Hold() override {
    GPUMAN_TRY(RequireWaiting());
    GPUMAN_TRY(engine_.programs.Hold(name_));
    return PrintNow();
  }

  Result<int> Release(std::optional<base::WallTime> at) override {
    GPUMAN_TRY(RequireWaiting());
    if (at) GPUMAN_TRY(engine_.programs.SetBegin(name_, *at - base::SystemClock().Wall()));
    GPUMAN_TRY(engine_.programs.Release(name_));
    return PrintNow();
  }

  Result<spec::JobState> Cancel(bool dry_run) override {
    GPUMAN_ASSIGN(const auto lines, LookUp(engine_, name_));
    const auto open = std::find_if_not(lines.begin(), lines.end(), HasEnded);
    if (open == lines.end()) return base::Fail(ErrorCode::kConflict, fmt::format("{}: it has ended", Name()));
    if (!dry_run) GPUMAN_TRY(engine_.programs.Cancel(name_));
    return *open->state;
  }

  base::Error RefuseUpdate() const override {
    return Refusal("job update", fmt::format("scontrol update JobId={} …", InSlurm(name_)));
  }
  base::Error RefuseRedo() const override {
    return Refusal("job redo", "submit it again, or scontrol requeue " + InSlurm(name_));
  }

 private:
  Result<int> PrintNow() {
    GPUMAN_ASSIGN(const auto lines, LookUp(engine_, name_));
    PrintLines(session_, lines);
    return kExitDone;
  }

  // Slurm also holds a job that runs: the hold would only keep the job from starting again. The user does not
  // mean that.
  Result<> RequireWaiting() const {
    GPUMAN_ASSIGN(const auto lines, LookUp(engine_, name_));
    if (std::any_of(lines.begin(), lines.end(), IsWaiting)) return {};
    return base::Fail(ErrorCode::kConflict,
                      fmt::format("{}: only jobs that wait can be held and released", Name()));
  }

  base::Error Refusal(std::string_view command, std::string instead) const {
    return {ErrorCode::kUnsatisfiable,
            fmt::format("{}: {} is for jobs of this machine's queue", Name(), command), std::move(instead)};
  }

  CommandContext& session_;
  const SlurmContext engine_;
  const SlurmJobId name_;
};

}  // namespace

std::unique_ptr<queue::ExternalJobHandle> SlurmQueue::Find(CommandContext& session,
                                                           const std::string& word) const {
  const auto name = SlurmJobIdFromString(word);
  return name ? std::make_unique<Job>(session, *name) : nullptr;
}

}  // namespace gpuman::cli::slurm
