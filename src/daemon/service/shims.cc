// What the daemon does about the ledgers of the jobs' shims.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "base/file.h"
#include "base/peer.h"
#include "daemon/service/service.h"
#include "daemon/shims/ledger_limits.h"
#include "daemon/shims/refusals.h"
#include "suspend/host_room.h"

namespace gpuman::daemon {
namespace {

std::filesystem::path ContextCostsFile(const Config& config) { return config.state_dir / "contexts.json"; }

// A process of the job may write its ledger where it is the owner's: by its user, or by who made the user
// namespace that it is in (rootless containers). Root's jobs run as whom they like; containers are root's.
bool MayBeOf(const jobs::Job& job, const ledger::Caller& caller) {
  const uid_t owner = job.owner->uid;
  return owner == 0 || caller.uid == 0 || caller.uid == owner ||
         base::OwnerOfNamespace(caller.process.pid) == owner;
}

// What the keeper that is known has left carries its key; what claims the job without it can only be of the
// next keeper.
bool MayHaveNewKeeper(const jobs::Job& job) {
  return !job.attached && job.keeper && !base::IsAlive(*job.keeper);
}

}  // namespace

void Service::RecallContexts() {
  if (const auto known = base::ReadFile(ContextCostsFile(core_.config())))
    context_costs_ = ContextCosts::Parse(*known);
}

void Service::SetLedger(const jobs::Job& job) {
  if (!shims_ || !job.preload || !job.keeper || jobs::IsEnded(job)) return;
  const bool is_new = !shims_->Has(job.id);
  const auto limits = LedgerLimitsOf(job, core_.inventory());
  ledger::Eviction eviction;
  eviction.possible = job.share && !job.mps;
  eviction.patience = core_.config().suspend.patience;
  if (const auto memory = suspend::ReadHostMemory())
    eviction.host_budget = core_.config().suspend.host_memory.Of(memory->total);
  auto set = shims_->SetJob(job.id, {*job.keeper, job.container ? job.cgroup : ""}, limits, eviction);
  if (!set)
    return spdlog::warn("job {} ({}): the shim does not hold its limit: {}", job.id.value, job.tag,
                        set.error().message);
  if (is_new) WarnOfTightLimits(job, limits);
}

void Service::WarnOfTightLimits(const jobs::Job& job, const std::vector<ledger::GpuLimit>& limits) {
  for (const auto& limit : limits) {
    const auto context = shims_->ContextOn(limit.uuid);
    if (!context || !limit.hard || *limit.hard >= *context) continue;
    const auto message = fmt::format(
        "the limit of job {} '{}', {}, is less than a CUDA context takes on its GPU ({}): programs that use "
        "CUDA will be out of memory at once",
        job.id.value, job.tag, base::FormatBytes(*limit.hard), base::FormatBytes(*context));
    core_.jobs().Note(job.id, message);
    return core_.Tell(job, {"limit_below_context",
                            message,
                            {{"limit", static_cast<std::int64_t>(limit.hard->count)},
                             {"context", static_cast<std::int64_t>(context->count)}}});
  }
}

std::optional<std::string> Service::TightLimitOf(const jobs::Job& job) const {
  if (!shims_ || !job.preload) return std::nullopt;
  return TightLimit(job, core_.inventory(),
                    [this](const std::string& uuid) { return shims_->ContextOn(uuid); });
}

ledger::Attribution Service::JobOfShim(const ledger::Caller& caller) const {
  const auto found = core_.guard().JobOf(caller.process.pid);
  if (!found.complete) return {ledger::Verdict::kNotYet, {}};
  const auto known = found.job;
  if (!known && ContainerIsComing(caller.process)) return {ledger::Verdict::kLater, {}};
  const auto* job = core_.jobs().Find(known.value_or(caller.claimed_job.value_or(base::JobId{})));
  if (!job || !job->preload || jobs::IsEnded(*job)) return {};
  if (!MayBeOf(*job, caller)) return {};
  if (known && shims_->Has(*known)) {
    // A limit is so many bytes of a GPU.
    const bool early =
        !core_.is_ready() && core_.inventory().gpus.empty() && !shims_->Counts(*known, caller.process);
    return {early ? ledger::Verdict::kLater : ledger::Verdict::kJob, *known};
  }
  // Its keeper has started the command, and has not told yet that it did.
  const bool may_be_its = !shims_->Has(job->id) || MayHaveNewKeeper(*job);
  return {may_be_its ? ledger::Verdict::kLater : ledger::Verdict::kNobody, job->id};
}

void Service::ExpectContexts() {
  if (!shims_) return;
  const auto& inventory = core_.inventory();
  for (const auto& gpu : inventory.gpus)
    if (const auto bytes = context_costs_.Of(gpu.name, inventory.driver_version))
      shims_->ExpectContext(gpu.uuid, *bytes);
}

void Service::LearnContext(const gpu::Gpu& gpu, base::Bytes bytes) {
  if (!context_costs_.Learn(gpu.name, core_.inventory().driver_version, bytes)) return;
  boost::asio::post(core_.workers(), [path = ContextCostsFile(core_.config()), text = context_costs_.Text()] {
    if (auto written = base::ReplaceFile(path, text, 0600); !written)
      spdlog::warn("what a context takes could not be stored: {}", written.error().message);
  });
}

void Service::TellOtherShim(base::JobId id, base::ProcessId process, std::uint32_t version) {
  const auto* job = core_.jobs().Find(id);
  if (!job) return;
  const auto message = fmt::format(
      "process {} of job {} '{}' has a libgpuman.so that speaks version {}, this daemon {}: the guard "
      "alone holds its limit; restart the job to give it the one that is installed",
      process.pid, id.value, job->tag, version, ledger::wire::kVersion);
  core_.jobs().Note(id, message);
  core_.Tell(*job, {"shim_other_version", message, {{"pid", process.pid}, {"version", version}}});
}

std::optional<jobs::RefusedAllocation> Service::RefusalOf(const jobs::Job& job) const {
  if (jobs::IsEnded(job) || !shims_) return job.refusal;
  const auto seen = shims_->RefusalOf(job.id);
  return seen ? std::optional(daemon::RefusalOf(*seen, core_.clock().Mono(), core_.clock().Wall()))
              : job.refusal;
}

void Service::TellRefusals() {
  for (const auto id : shims_->RefusedAnew()) {
    const auto* const job = core_.jobs().Find(id);
    const auto refusal = job ? RefusalOf(*job) : std::nullopt;
    if (refusal && refusals_.Tells(id, core_.clock().Mono())) TellRefusal(*job, *refusal);
  }
}

void Service::TellRefusal(const jobs::Job& job, const jobs::RefusedAllocation& refusal) {
  jobs::Notice notice{"allocation_refused",
                      Sentence(job, refusal, core_.inventory()),
                      {{"asked", static_cast<std::int64_t>(refusal.asked.count)},
                       {"used", static_cast<std::int64_t>(refusal.used.count)}}};
  if (refusal.limit) notice.data["limit"] = static_cast<std::int64_t>(refusal.limit->count);
  core_.Tell(job, notice);
}

// Its ledger goes with its end: what it says is taken into the job's record.
void Service::KeepRefusal(jobs::Job& job, const keeper::JournalRecord& record) {
  if (!shims_) return;
  if (std::holds_alternative<keeper::RunStarted>(record.body))
    return shims_->SetRun(job.id, base::MonoTime(record.mono));
  if (!std::holds_alternative<keeper::RunEnded>(record.body)) return;
  TellRefusals();
  if (const auto seen = shims_->RefusalOf(job.id))
    job.refusal = daemon::RefusalOf(*seen, core_.clock().Mono(), core_.clock().Wall());
  Explain(job, core_.inventory());
}

void Service::LookAtLedgers(const guard::GpuStatus& status) {
  if (!shims_) return;
  const auto findings = shims_->OnSample(status);
  if (findings.context) LearnContext(status.gpu, *findings.context);
  for (const auto& [id, counted] : findings.counted) core_.guard().SetCounted(id, status.gpu.uuid, counted);
  TellRefusals();
  for (const auto id : findings.overwritten) {
    const auto* job = core_.jobs().Find(id);
    if (!job) continue;
    core_.Tell(*job,
               {"ledger_overwritten",
                fmt::format("a program of job {} '{}' has overwritten what its processes count their memory "
                            "in; the guard alone holds its limit now",
                            id.value, job->tag),
                {}});
  }
}

}  // namespace gpuman::daemon
