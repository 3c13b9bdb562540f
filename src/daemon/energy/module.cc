#include "daemon/energy/module.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

#include "base/boot.h"
#include "daemon/sharing/module.h"
#include "daemon/suspension/module.h"
#include "energy/cost.h"

namespace gpuman::daemon {
namespace {

constexpr std::string_view kEnergyKey = "energy/";
// A keeper may have written a record while no daemon ran. For such an older record nobody has read the
// counters.
constexpr base::Millis kFreshRecord{5'000};
// After a change of those that have a GPU its counter is read often for so long: mostly until the next turn.
constexpr std::chrono::seconds kWatched{3};
// What a sample told of the work of processes holds so long.
constexpr std::chrono::seconds kWorkHolds{5};
// Where jobs begin to run at once, the sampler looks at their work now unless it did so a moment ago.
constexpr std::chrono::milliseconds kWorkIsOld{500};
constexpr std::chrono::milliseconds kKeepSoon{200};
constexpr std::chrono::seconds kKeepEvery{30}, kKeepAtRest{600};  // KeepSoon comes before

double Joules(energy::Millijoules millijoules) { return static_cast<double>(millijoules) / 1000; }

// In hours, of all of the job's GPUs, without the time off them.
double GpuHoursOf(const jobs::Job& job, base::WallTime now) {
  if (!job.started_at) return 0;
  const auto end = jobs::IsEnded(job) ? job.ended_at.value_or(now) : job.off_since.value_or(now);
  const std::chrono::duration<double, std::ratio<3600>> ran = end - *job.started_at - job.suspended;
  return std::max(ran.count(), 0.0) * static_cast<double>(job.gpus.size());
}

std::string TextOf(const std::vector<std::pair<base::JobId, bool>>& who) {
  std::string text = who.empty() ? "nobody" : "";
  for (const auto& [job, moves] : who)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", job.value, moves ? " (moves)" : "");
  return text;
}

}  // namespace

EnergyModule::EnergyModule(Core& core, SuspensionModule& suspension, SharingModule& sharing)
    : core_(core), suspension_(suspension), sharing_(sharing), keep_(core.loop()) {
  core_.sampling().on_energy.Connect([this](const gpu::EnergySample& seen) {
    accounts_[seen.uuid].Read(seen.reading.millijoules, seen.reading.at);
  });
  suspension_.controller().on_phase.Connect(
      [this](base::JobId /*job*/, suspend::SuspensionPhase /*phase*/) { UpdateSoon(); });
  sharing_.on_turns.Connect([this] { UpdateSoon(); });
}

void EnergyModule::Restore(jobs::StoreContents& contents) {
  std::set<base::JobId> going_on;
  for (const auto& job : contents.jobs)
    if (!jobs::IsEnded(job) && !jobs::IsWaiting(job)) going_on.insert(job.id);
  for (const auto& [key, text] : contents.settings) {
    if (!key.starts_with(kEnergyKey) || !text) continue;
    const auto record = energy::ParseRecord(*text);
    if (!record) {
      spdlog::warn("{}; its sums begin anew", record.error().message);
      continue;
    }
    const auto uuid = key.substr(kEnergyKey.size());
    auto& account = accounts_[uuid];
    account.Restore(*record, base::BootId(), going_on);
    for (const auto job : going_on)
      if (account.Of(job)) runs_[job].gpus.insert(uuid);
  }
  for (const auto& job : contents.jobs) {
    const auto run = runs_.find(job.id);
    if (run == runs_.end()) continue;
    Include(job, run->second);  // of a GPU without a record its part is not known
    run->second.seen = true;
  }
}

bool EnergyModule::Stop() {
  for (auto& [uuid, account] : accounts_) account.Reckon(core_.clock().Mono());
  Keep();
  return true;
}

// --- What is read ---

void EnergyModule::OnSample(const gpu::GpuSample& sample) {
  if (gpu::IsInstance(sample.uuid) || sample.state != gpu::GpuReachability::kOk) return;
  if (const auto& energy = sample.slow.energy) accounts_[sample.uuid].Read(energy->millijoules, energy->at);
  if (sample.busy) work_[sample.uuid] = {sample.taken_at, sample.work};
}

void EnergyModule::AfterSamples(const std::set<std::string>& /*gpus*/) { Update(); }

void EnergyModule::OnTick() {
  if (core_.clock().Mono() >= keep_at_) Keep();
}

// --- Who has the GPUs ---

// Many things may change in one step of the loop.
void EnergyModule::UpdateSoon() {
  if (std::exchange(updates_soon_, true)) return;
  boost::asio::post(core_.loop(), self_.Bind([](EnergyModule& me) {
    me.updates_soon_ = false;
    me.Update();
  }));
}

void EnergyModule::NoteProcessesOfJobs() {
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    auto& before = of_jobs_[uuid];
    std::set<base::ProcessId> now;
    for (const auto& process : status.processes)
      if (process.job || before.contains(process.id)) now.insert(process.id);
    before = std::move(now);
  }
}

void EnergyModule::Update() {
  NoteProcessesOfJobs();
  const auto now = core_.clock().Mono();
  auto present = Present();
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    if (gpu::IsInstance(uuid)) continue;
    auto& there = present[uuid];
    SetWork(status, there);
    auto holders = HoldersOf(std::move(there));
    std::vector<std::pair<base::JobId, bool>> who;
    for (const auto& holder : holders) who.emplace_back(holder.job, holder.moves);
    const bool vacant = !status.gpu.split && status.sample.processes && status.sample.processes->empty();
    accounts_[uuid].SetHolders(std::move(holders), vacant, now);
    if (std::exchange(seen_[uuid], who) == who) continue;
    core_.sampling().sampler().WatchEnergy(uuid, now + kWatched);
    const auto running = std::count_if(who.begin(), who.end(), [](const auto& one) { return !one.second; });
    if (running > 1 && now - work_[uuid].at > kWorkIsOld) core_.sampling().sampler().Poke(uuid);
    if (spdlog::should_log(spdlog::level::debug)) spdlog::debug("energy: {} has {}", uuid, TextOf(who));
  }
}

EnergyModule::PresentByGpu EnergyModule::Present() const {
  PresentByGpu present;
  std::map<base::JobId, std::set<std::string>> processes;  // the GPUs on which each job has some
  for (const auto& [uuid, status] : core_.guard().Statuses()) {
    bool foreign = status.gpu.split;  // what instances use is not told apart
    for (const auto& process : status.processes) {
      if (process.job) processes[*process.job].insert(uuid);
      const auto& of_jobs = of_jobs_.at(uuid);
      foreign = foreign || (!process.job && !process.ours && !of_jobs.contains(process.id));
    }
    if (foreign && !gpu::IsInstance(uuid)) present[uuid].push_back({.job = energy::kOthers, .process = true});
  }
  const auto* const controller = sharing_.controller();
  const auto turns = controller ? controller->Turns() : std::map<base::JobId, ShareController::Turn>{};
  std::set<std::string> reached;  // GPUs to which memory comes: what leaves there makes room for it
  for (const auto& [job, turn] : turns) reached.insert(turn.comes.begin(), turn.comes.end());
  for (const auto* const job : core_.jobs().Active()) {
    const auto turn = turns.find(job->id);
    if (turn == turns.end()) {
      AddPresence(*job, /*idle=*/false, processes, present);
      continue;
    }
    for (const auto& gpu : turn->second.comes) present[gpu].push_back({.job = job->id, .moves = true});
    if (turn->second.runs) {
      AddPresence(*job, turn->second.idle, processes, present);
      continue;
    }
    for (const auto& gpu : turn->second.leaves)
      if (!reached.contains(gpu)) present[gpu].push_back({.job = job->id, .moves = true});
  }
  return present;
}

void EnergyModule::AddPresence(const jobs::Job& job, bool idle,
                               const std::map<base::JobId, std::set<std::string>>& processes,
                               PresentByGpu& present) const {
  if (job.state != spec::JobState::kRunning && job.state != spec::JobState::kStopping) return;
  using enum suspend::SuspensionPhase;
  const auto* const record = suspension_.controller().RecordOf(job.id);
  const auto phase = record ? record->phase : kRunning;
  if (phase == kSuspended) return;
  const bool moves = phase != kRunning && phase != kEnded;
  const auto its = processes.find(job.id);
  std::set<std::string> gpus(job.gpus.begin(), job.gpus.end());
  if (its != processes.end()) gpus.insert(its->second.begin(), its->second.end());
  for (const auto& gpu : gpus) {
    const bool process = its != processes.end() && its->second.contains(gpu);
    present[gpu].push_back({.job = job.id, .moves = moves, .idle = idle, .process = process});
  }
}

void EnergyModule::SetWork(const guard::GpuStatus& status, std::vector<GpuOccupant>& present) const {
  const auto known = work_.find(status.gpu.uuid);
  if (known == work_.end() || core_.clock().Mono() - known->second.at > kWorkHolds) return;
  for (auto& one : present) {
    one.work = 0;
    for (const auto& process : status.processes) {
      if (process.ours || process.job.value_or(energy::kOthers) != one.job) continue;
      if (const auto work = known->second.of.find(process.id.pid); work != known->second.of.end())
        *one.work += work->second;
    }
  }
}

// --- Runs ---

void EnergyModule::OnRecorded(jobs::Job& job, const keeper::JournalRecord& record) {
  const bool fresh = std::chrono::abs(core_.clock().Wall() - record.wall) < kFreshRecord;
  if (std::holds_alternative<keeper::RunStarted>(record.body)) Begin(job, fresh);
  if (!std::holds_alternative<keeper::RunEnded>(record.body)) return;
  job.energy_used = fresh ? EndOf(job) : std::nullopt;
  KeepSoon();
}

void EnergyModule::Begin(const jobs::Job& job, bool seen) {
  for (auto& [uuid, account] : accounts_) account.Forget(job.id);
  Run& run = runs_[job.id] = {{}, seen};
  Include(job, run);
  Update();
  KeepSoon();
}

// The job is on its GPUs from now on.
void EnergyModule::Include(const jobs::Job& job, Run& run) {
  std::vector<std::string> gpus = job.gpus;
  if (gpus.empty() && !job.queued) gpus = core_.AllGpus();
  for (const auto& gpu : gpus)
    if (run.gpus.insert(gpu).second) accounts_[gpu].Begin(job.id, run.seen);
}

void EnergyModule::OnJobChanged(const jobs::Job& /*job*/) { UpdateSoon(); }

void EnergyModule::OnJobRuns(const jobs::Job& job) {
  if (const auto run = runs_.find(job.id); run != runs_.end()) Include(job, run->second);
}

void EnergyModule::OnJobLeft(base::JobId job, UnwatchReason why) {
  if (why != UnwatchReason::kEnded) of_jobs_.clear();  // its processes go on as strangers
  for (auto& [uuid, account] : accounts_) account.Forget(job);
  runs_.erase(job);
  UpdateSoon();
}

std::optional<energy::Millijoules> EnergyModule::EndOf(const jobs::Job& job) {
  const auto run = runs_.find(job.id);
  if (run == runs_.end()) return std::nullopt;
  for (const auto& gpu : run->second.gpus) accounts_[gpu].Reckon(core_.clock().Mono());
  const auto used = UsedBy(job.id);
  return used ? std::optional(static_cast<energy::Millijoules>(*used * 1000)) : std::nullopt;
}

std::optional<double> EnergyModule::UsedBy(base::JobId job) const {
  const auto run = runs_.find(job);
  if (run == runs_.end() || run->second.gpus.empty()) return std::nullopt;
  energy::Millijoules sum = 0;
  for (const auto& gpu : run->second.gpus) {
    const auto account = accounts_.find(gpu);
    const auto used =
        account == accounts_.end() || !account->second.IsCounted() ? std::nullopt : account->second.Of(job);
    if (!used) return std::nullopt;
    sum += *used;
  }
  return Joules(sum);
}

// --- What is shown ---

void EnergyModule::Show(const jobs::Job& job, api::JobView& view) const {
  if (jobs::IsWaiting(job) || !job.started_at) return;
  if (jobs::IsEnded(job))
    view.energy = job.energy_used ? std::optional(Joules(*job.energy_used)) : std::nullopt;
  else
    view.energy = UsedBy(job.id);
  const auto& prices = core_.config().cost;
  view.cost = energy::CostOf(prices, GpuHoursOf(job, core_.clock().Wall()), view.energy);
  if (view.cost) view.currency = prices.currency;
}

void EnergyModule::AddMetrics(metrics::Snapshot& snapshot) {
  for (auto& device : snapshot.devices) {
    const auto account = accounts_.find(device.gpu.uuid);
    if (account == accounts_.end() || !account->second.IsCounted()) continue;
    device.energy_parts = {{"jobs", Joules(account->second.of_jobs())},
                           {"idle", Joules(account->second.idle())},
                           {"others", Joules(account->second.others())}};
  }
  for (auto& job : snapshot.jobs) job.energy = UsedBy({job.id});
  const auto& prices = core_.config().cost;
  snapshot.gpu_hour_price = prices.gpu_hour;
  snapshot.kwh_price = prices.kwh;
  snapshot.currency = prices.currency;
}

// --- What is kept ---

void EnergyModule::KeepSoon() {
  if (std::exchange(keeps_soon_, true)) return;
  keep_.expires_after(kKeepSoon);
  keep_.async_wait(self_.Bind([](EnergyModule& me, boost::system::error_code error) {
    if (!error) me.Keep();
  }));
}

void EnergyModule::Keep() {
  keeps_soon_ = false;
  keep_at_ = core_.clock().Mono() + (runs_.empty() ? kKeepAtRest : kKeepEvery);
  jobs::SettingRows rows;
  for (const auto& [uuid, account] : accounts_) {
    const auto record = account.ToRecord(base::BootId());
    if (!record) continue;
    auto text = energy::SerializeRecord(*record);
    if (std::exchange(kept_[uuid], text) != text) rows[std::string(kEnergyKey) + uuid] = std::move(text);
  }
  if (rows.empty()) return;
  core_.Keep(std::move(rows), [](const base::Result<>& written) {
    if (!written)
      spdlog::warn("the account of the GPUs' energy could not be stored: {}", written.error().message);
  });
}

}  // namespace gpuman::daemon
