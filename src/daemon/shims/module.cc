#include "daemon/shims/module.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <csignal>

#include "base/file.h"
#include "base/peer.h"
#include "daemon/shims/ledger_limits.h"
#include "suspend/host_room.h"

namespace gpuman::daemon {
namespace {

std::filesystem::path ContextCostsFile(const Config& config) { return config.state_dir / "contexts.json"; }

// A process of the job may write the job's ledger if it belongs to the job's owner: the process runs as that
// user, or that user made the process's user namespace (rootless containers). Jobs of root, also containers,
// may run as any user.
bool MayBeOf(const jobs::Job& job, const ledger::LedgerRequest& caller) {
  const uid_t owner = job.owner->uid;
  return owner == 0 || caller.uid == 0 || caller.uid == owner ||
         base::OwnerOfNamespace(caller.process.pid) == owner;
}

// Processes that the known keeper has left behind carry its key. A process that claims the job without that
// key can only belong to the next keeper.
bool MayHaveNewKeeper(const jobs::Job& job) {
  return !job.attached && job.keeper && !base::IsAlive(*job.keeper);
}

}  // namespace

ShimsModule::ShimsModule(Core& core) : core_(core) {
  if (const auto known = base::ReadFile(ContextCostsFile(core_.config())))
    context_costs_ = ContextCosts::Parse(*known);
  if (!core_.options().shim_library.empty()) Open();
  // The keeper holds the job's ledger: its figures outlive the job's processes and this daemon.
  core_.jobs().callbacks().held_file = [this](base::JobId job) { return HeldFileOf(job); };
  core_.callbacks().exact_peak = [this](base::JobId job) {
    const auto peak = channel_ ? channel_->LargestPeakOf(job) : std::nullopt;
    return peak ? std::optional(peak->bytes) : std::nullopt;
  };
}

void ShimsModule::Open() {
  auto channel = ShimChannel::Open(
      core_.loop(), Socket(), core_.options().user_mode ? 0600 : 0666, core_.processes(),
      [this](const ledger::LedgerRequest& caller) { return JobOf(caller); },
      [this](base::JobId job, const ledger::LedgerRequest& caller, std::uint32_t version) {
        TellOtherVersion(job, caller.process, version);
      });
  if (!channel) return spdlog::warn("jobs get no shim: {}", channel.error().message);
  channel_ = std::move(*channel);
  quiescer_ = std::make_unique<JobQuiescer>(
      core_.loop(), core_.clock(), *channel_,
      [this](const std::string& uuid) { return gpu::NameOf(core_.inventory(), uuid); });
  channel_->on_notify.Connect([this](base::JobId job) { quiescer_->OnNotify(job); });
}

bool ShimsModule::Stop() {
  quiescer_.reset();
  channel_.reset();
  return true;
}

// shim.sock beside gpumand.sock; beside a socket of another name, that name with ".shim", so that no other
// daemon uses it.
std::filesystem::path ShimsModule::Socket() const {
  const auto& socket = core_.config().socket;
  const auto name = socket.filename();
  return socket.parent_path() / (name == "gpumand.sock" ? "shim.sock" : name.string() + ".shim");
}

void ShimsModule::SetUpLaunch(jobs::LaunchSettings& settings) const {
  if (!channel_ || !core_.config().shim.preload) return;
  settings.shim = core_.options().shim_library;
  settings.shim_socket = Socket();
}

void ShimsModule::AskAgain() {
  if (channel_) channel_->AskAgain();
}

void ShimsModule::OnReady() { AskAgain(); }

// --- Ledgers ---

void ShimsModule::OnJobRuns(const jobs::Job& job) { SetLedger(job); }

void ShimsModule::OnJobLeft(base::JobId job, UnwatchReason why) {
  if (!channel_) return;
  if (why == UnwatchReason::kEnded)
    channel_->RemoveJob(job);
  else
    channel_->ReleaseJob(job);
}

void ShimsModule::Reconfigure() { SetLedgers(); }

void ShimsModule::SetLedgers() {
  for (const auto* const job : core_.jobs().Active()) SetLedger(*job);
}

void ShimsModule::SetLedger(const jobs::Job& job) {
  if (!channel_ || !job.spec->preload || !job.keeper || jobs::IsEnded(job)) return;
  const bool is_new = !channel_->Has(job.id);
  const auto limits = LedgerLimitsOf(job, core_.inventory());
  ledger::EvictionSettings eviction;
  eviction.possible = jobs::HasGate(job);
  eviction.patience = core_.config().suspend.patience;
  if (const auto memory = suspend::ReadHostMemory())
    eviction.host_budget = core_.config().suspend.host_memory.Of(memory->total);
  auto set = channel_->SetJob(job.id, {*job.keeper, job.container ? job.cgroup : ""}, limits, eviction,
                              [&] { return core_.jobs().SavedHeldOf(job); });
  if (!set)
    return spdlog::warn("job {} ({}): the shim does not hold its limit: {}", job.id.value, job.tag,
                        set.error().message);
  if (!is_new) return;
  if (const auto file = HeldFileOf(job.id)) core_.jobs().HoldFile(job.id, *file);
  WarnOfTightLimits(job, limits);
}

std::optional<base::Fd> ShimsModule::HeldFileOf(base::JobId job) const {
  auto file = channel_ ? channel_->LedgerOf(job) : base::Fail(base::ErrorCode::kNotFound, "");
  return file ? std::optional(std::move(*file)) : std::nullopt;
}

void ShimsModule::WarnOfTightLimits(const jobs::Job& job, const std::vector<ledger::GpuLimit>& limits) {
  for (const auto& limit : limits) {
    const auto context = channel_->ContextOn(limit.uuid);
    if (!context || !limit.hard || *limit.hard >= *context) continue;
    const auto message = fmt::format(
        "the limit of job {} '{}', {}, is less than a CUDA context takes on its GPU ({}): programs that use "
        "CUDA will be out of memory at once",
        job.id.value, job.tag, base::FormatBytes(*limit.hard), base::FormatBytes(*context));
    core_.jobs().Note(job.id, message);
    return core_.AddJobEvent(job, {"limit_below_context",
                                   message,
                                   {{"limit", static_cast<std::int64_t>(limit.hard->count)},
                                    {"context", static_cast<std::int64_t>(context->count)}}});
  }
}

std::optional<std::string> ShimsModule::TightLimitOf(const jobs::Job& job) const {
  if (!channel_ || !job.spec->preload) return std::nullopt;
  return TightLimit(job, core_.inventory(),
                    [this](const std::string& uuid) { return channel_->ContextOn(uuid); });
}

ledger::JobAttribution ShimsModule::JobOf(const ledger::LedgerRequest& caller) const {
  const auto found = core_.guard().JobOf(caller.process.pid);
  if (!found.complete) return {ledger::AttributionOutcome::kNotYet, {}};
  const auto known = found.job;
  if (!known && is_coming_(caller.process)) return {ledger::AttributionOutcome::kLater, {}};
  const auto* job = core_.jobs().Find(known.value_or(caller.claimed_job.value_or(base::JobId{})));
  if (!job || !job->spec->preload || jobs::IsEnded(*job)) return {};
  if (!MayBeOf(*job, caller)) return {};
  if (known && channel_->Has(*known)) {
    // Limits in bytes need the GPUs, so it is too early while no GPU is known.
    const bool early =
        !core_.is_ready() && core_.inventory().gpus.empty() && !channel_->Counts(*known, caller.process);
    return {early ? ledger::AttributionOutcome::kLater : ledger::AttributionOutcome::kJob, *known};
  }
  // The keeper may have started the command and not have told it yet.
  const bool may_be_its = !channel_->Has(job->id) || MayHaveNewKeeper(*job);
  return {may_be_its ? ledger::AttributionOutcome::kLater : ledger::AttributionOutcome::kNobody, job->id};
}

void ShimsModule::OnInventory() {
  if (!channel_) return;
  const auto& inventory = core_.inventory();
  for (const auto& gpu : inventory.gpus)
    if (const auto bytes = context_costs_.Of(gpu.name, inventory.driver_version))
      channel_->ExpectContext(gpu.uuid, *bytes);
  SetLedgers();
}

base::Bytes ShimsModule::ContextCostOf(const std::string& uuid) const {
  const auto& inventory = core_.inventory();
  for (const auto& gpu : inventory.gpus)
    if (gpu.uuid == uuid)
      return context_costs_.Of(gpu.name, inventory.driver_version).value_or(base::Bytes{});
  return {};
}

base::Bytes ShimsModule::HostMemoryOf(base::JobId job) const {
  return channel_ ? channel_->HostMemoryOf(job) : base::Bytes{};
}

// The other GPUs of the same model expect the same.
void ShimsModule::LearnContext(const gpu::Gpu& gpu, base::Bytes bytes) {
  for (const auto& other : core_.inventory().gpus)
    if (other.name == gpu.name && other.uuid != gpu.uuid) channel_->ExpectContext(other.uuid, bytes);
  if (!context_costs_.Learn(gpu.name, core_.inventory().driver_version, bytes)) return;
  boost::asio::post(core_.workers(), [path = ContextCostsFile(core_.config()), text = context_costs_.Text()] {
    if (auto written = base::ReplaceFile(path, text, 0600); !written)
      spdlog::warn("what a context takes could not be stored: {}", written.error().message);
  });
}

void ShimsModule::TellOtherVersion(base::JobId id, base::ProcessId process, std::uint32_t version) {
  const auto* job = core_.jobs().Find(id);
  if (!job) return;
  const auto message = fmt::format(
      "process {} of job {} '{}' has a libgpuman.so that speaks version {}, this daemon {}: the guard "
      "alone holds its limit; restart the job to give it the one that is installed",
      process.pid, id.value, job->tag, version, ledger::wire::kVersion);
  core_.jobs().Note(id, message);
  core_.AddJobEvent(*job, {"shim_other_version", message, {{"pid", process.pid}, {"version", version}}});
}

std::optional<jobs::RefusedAllocation> ShimsModule::RefusalOf(const jobs::Job& job) const {
  if (jobs::IsEnded(job) || !channel_) return job.refusal.Optional();
  const auto seen = channel_->RefusalOf(job.id);
  return seen ? std::optional(daemon::RefusalOf(*seen, core_.clock().Mono(), core_.clock().Wall()))
              : job.refusal.Optional();
}

void ShimsModule::TellRefusals() {
  for (const auto id : channel_->RefusedAnew()) {
    const auto* const job = core_.jobs().Find(id);
    const auto refusal = job ? RefusalOf(*job) : std::nullopt;
    if (refusal && refusals_.Tells(id, core_.clock().Mono())) TellRefusal(*job, *refusal);
  }
}

void ShimsModule::TellRefusal(const jobs::Job& job, const jobs::RefusedAllocation& refusal) {
  jobs::JobNotice notice{"allocation_refused",
                         Sentence(job, refusal, core_.inventory(), core_.jobs().index().NameOf(job)),
                         {{"asked", static_cast<std::int64_t>(refusal.asked.count)},
                          {"used", static_cast<std::int64_t>(refusal.used.count)}}};
  if (refusal.limit) notice.data["limit"] = static_cast<std::int64_t>(refusal.limit->count);
  core_.AddJobEvent(job, notice);
}

std::vector<jobs::MemoryPeak> ShimsModule::PeaksOf(const jobs::Job& job) const {
  if (channel_ && channel_->Has(job.id)) return channel_->PeaksOf(job.id);
  return job.peaks.Optional().value_or(std::vector<jobs::MemoryPeak>{});
}

// The ledger goes when the job ends, so its refusals are taken into the job's record. A job that finished is
// told of a limit that was too large, once: not after each of its runs.
void ShimsModule::OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) {
  if (!channel_) return;
  if (std::holds_alternative<keeper::RunStarted>(record.body))
    return channel_->SetRun(job.id, base::MonoTime(record.mono));
  if (std::holds_alternative<keeper::JobEnded>(record.body) && job.state == spec::JobState::kFinished) {
    const auto peak = std::max(job.peak, core_.UsageOf(job.id).peak);
    const auto wide = peak ? WideLimit(job, core_.inventory(), *peak) : std::nullopt;
    if (!wide) return;
    job.notes.push_back(wide->message);
    return core_.AddJobEvent(job, *wide);
  }
  if (!std::holds_alternative<keeper::RunEnded>(record.body)) return;
  TellRefusals();
  if (const auto seen = channel_->RefusalOf(job.id))
    job.refusal = daemon::RefusalOf(*seen, core_.clock().Mono(), core_.clock().Wall());
  job.peak_parts.reset();
  if (const auto largest = channel_->LargestPeakOf(job.id)) job.peak_parts = largest->parts;
  job.peaks.reset();
  if (auto peaks = channel_->PeaksOf(job.id); !peaks.empty()) job.peaks = std::move(peaks);
  Explain(job, core_.inventory(), record.wall, core_.jobs().index().NameOf(job));
}

void ShimsModule::OnJobForgotten(base::JobId job) { refusals_.Forget(job); }

// --- Samples ---

void ShimsModule::BeforeSample(const gpu::GpuSample& sample) {
  if (channel_) core_.guard().SetManaged(sample.uuid, channel_->ManagedOn(sample.uuid));
}

void ShimsModule::OnSample(const gpu::GpuSample& sample) {
  const auto* const status = core_.guard().Find(sample.uuid);
  if (!channel_ || !status) return;
  const auto findings = channel_->OnSample(*status);
  channel_->SetSampled(sample);
  if (findings.context) LearnContext(status->gpu, *findings.context);
  for (const auto& [id, counted] : findings.counted) core_.guard().SetCounted(id, sample.uuid, counted);
  TellRefusals();
  for (const auto id : findings.overwritten) TellOverwritten(id);
  EndLockFloods();
}

void ShimsModule::EndLockFloods() {
  const auto now = core_.clock().Mono();
  if (now - looked_for_floods_ < ledger::LockFloodDetector::kInterval) return;  // GPUs are sampled one by one
  looked_for_floods_ = now;
  for (const auto id : channel_->LockFloods()) EndForLocks(id);
}

// No other measure helps: the locks last as long as a process of the job has the file open.
void ShimsModule::EndForLocks(base::JobId id) {
  boost::asio::post(core_.loop(), [this, id] {
    const auto* const job = core_.jobs().Find(id);
    if (!job) return;
    const keeper::EndReason reason{
        "ledger_locks",
        "its programs have taken so many locks on the memory in which they count that "
        "gpumand would be slow for all users: it is ended"};
    core_.jobs().Announce(id, reason);
    if (!core_.jobs().Signal(id, SIGKILL)) return channel_->LookForLockFloodAnew(id);
    core_.AddJobEvent(*job, {reason.word, reason.detail, {}});
  });
}

void ShimsModule::TellOverwritten(base::JobId id) {
  const auto* const job = core_.jobs().Find(id);
  if (!job) return;
  core_.AddJobEvent(
      *job, {"ledger_overwritten",
             fmt::format("a program of job {} '{}' has overwritten what its processes count their memory "
                         "in; the guard alone holds its limit now",
                         id.value, job->tag),
             {}});
}

// --- What is shown ---

void ShimsModule::Show(const jobs::Job& job, api::JobView& view) const {
  auto parts = job.peak_parts.Optional();
  if (channel_ && channel_->Has(job.id)) {
    const auto largest = channel_->LargestPeakOf(job.id);
    parts = largest ? largest->parts : std::nullopt;
  }
  if (parts && parts->Sum() == view.memory.peak) view.memory.peak_parts = parts;
  if (channel_ && channel_->Has(job.id) && (job.spec->memory || job.spec->soft)) {
    view.unshimmed = UnshimmedOf(
        job.id, core_.guard().Statuses(),
        [this](base::JobId id, base::ProcessId process) { return channel_->Counts(id, process); });
  }
  if (!jobs::IsEnded(job) && !jobs::IsWaiting(job))
    if (auto tight = TightLimitOf(job)) view.notes.push_back(std::move(*tight));
  const auto& guard = core_.config().guard;
  if (auto over = OverLimit(view, guard.overhead, guard.lowered_patience))
    view.notes.push_back(std::move(*over));
  if (const auto refusal = RefusalOf(job))
    view.refusal = ViewOf(job, *refusal, core_.inventory(), core_.jobs().index().NameOf(job));
}

void ShimsModule::AddMetrics(metrics::Snapshot& snapshot) {
  for (auto& job : snapshot.jobs) {
    job.host = HostMemoryOf({job.id});
    if (!channel() || channel()->SlotStatusesOf({job.id}).empty()) continue;
    const auto refused = channel()->RefusalCountsOf({job.id});
    for (auto& part : job.parts) {
      const auto count = refused.find(part.uuid);
      part.refused = count == refused.end() ? 0 : count->second;
    }
  }
  if (!quiescer_) return;
  for (const bool several : {false, true}) {
    const auto& totals = quiescer_->TotalsOf(several);
    snapshot.rests.push_back({several ? "several" : "one",
                              totals.rested,
                              {{"rested", totals.rested.count()},
                               {"late", totals.late},
                               {"failed", totals.failed},
                               {"cancelled", totals.cancelled}},
                              totals.calls});
  }
}

}  // namespace gpuman::daemon
