#include "daemon/shims/shim_channel.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/shims/refusals.h"
#include "ledger/find.h"

namespace gpuman::daemon {
namespace {

// As the shims tell times.
std::uint64_t NanosecondsOf(base::MonoTime time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

}  // namespace

base::Result<std::unique_ptr<ShimChannel>> ShimChannel::Open(boost::asio::io_context& loop,
                                                             const std::filesystem::path& socket, mode_t mode,
                                                             const base::ProcessTable& table,
                                                             ledger::Attribute attribute,
                                                             ledger::OtherVersion other_version) {
  std::unique_ptr<ShimChannel> channel(new ShimChannel(loop, socket, table));
  GPUMAN_ASSIGN(auto listening, ledger::ListenForShims(socket, mode));
  GPUMAN_ASSIGN(
      auto server,
      ledger::Server::Make(std::move(listening), channel->ledgers_, std::move(attribute),
                           [self = channel.get(), tell = std::move(other_version)](
                               base::JobId job, const ledger::LedgerRequest& caller, std::uint32_t version) {
                             if (!std::exchange(self->jobs_[job].version_reported, true))
                               tell(job, caller, version);
                           }));
  channel->server_.emplace(std::move(server));
  channel->server_->SetErrorHandler([](const base::Error& error) {
    spdlog::warn("{}: processes of jobs wait for their limits", error.message);
  });
  channel->server_->SetSlotListener([self = channel->self_handle_, executor = channel->ready_.get_executor()](
                                        base::JobId job, base::ProcessId) {
    boost::asio::post(executor, [self, job] {
      if (*self) (*self)->on_notify(job);
    });
  });
  const int own = ::fcntl(channel->server_->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return base::FailSystem(errno, "watching the shims' socket");
  channel->ready_.assign(own);
  channel->Wait();
  return channel;
}

ShimChannel::~ShimChannel() {
  *self_handle_ = nullptr;
  std::error_code ignored;
  if (server_) std::filesystem::remove(socket_, ignored);
}

void ShimChannel::Wait() {
  ready_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](boost::system::error_code error) {
                      if (error) return;
                      server_->Serve();
                      seen_.clear();  // processes that have just joined count from now on
                      Wait();
                    });
}

base::Result<> ShimChannel::SetJob(base::JobId job, const keeper::ProcessTree& tree,
                                   std::vector<ledger::GpuLimit> limits,
                                   const ledger::EvictionSettings& eviction, const SavedLedger& saved) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) {
    GPUMAN_TRY(Begin(job, tree, WithContexts(limits), eviction, saved));
  } else {
    if (!limits.empty() && known->second.limits != limits)
      GPUMAN_TRY(ledgers_.SetLimits(job, WithContexts(limits)));
    ledgers_.SetEviction(job, eviction);
  }
  Job& entry = jobs_[job];
  if (!limits.empty() && entry.limits != limits) {
    for (const auto& limit : limits) entry.uncounted_by_gpu.try_emplace(limit.uuid);
    entry.limits = std::move(limits);
  }
  seen_.clear();
  server_->AskAgain(job);
  return {};
}

base::Result<> ShimChannel::Begin(base::JobId job, const keeper::ProcessTree& tree,
                                  const std::vector<ledger::GpuLimit>& limits,
                                  const ledger::EvictionSettings& eviction, const SavedLedger& saved) {
  // An earlier daemon can have made a ledger only for a keeper older than this daemon. For a newer keeper the
  // daemon skips the search, which is slow: it goes through all processes of the machine.
  if (tree.keeper.start_time > self_.start_time) return ledgers_.Create(job, limits, eviction);
  std::vector<pid_t> pids;
  if (base::IsAlive(tree.keeper)) pids.push_back(tree.keeper.pid);  // it holds the ledger
  for (const auto& process : keeper::Members(tree, table_)) pids.push_back(process.id.pid);
  if (auto file = ledger::FindLedger(job, pids)) {
    auto adopted = ledgers_.Adopt(job, std::move(*file), limits, eviction);
    if (adopted) return adopted;
    spdlog::warn("job {}: {}; it gets a new one", job.value, adopted.error().message);
  } else if (saved) {
    if (const auto bytes = saved()) {
      auto restored = ledgers_.Restore(job, *bytes, limits, eviction);
      if (restored) return restored;
      spdlog::warn("job {}: what its programs counted is lost: {}", job.value, restored.error().message);
    }
  }
  return ledgers_.Create(job, limits, eviction);
}

void ShimChannel::RemoveJob(base::JobId job) {
  jobs_.erase(job);
  ledgers_.Drop(job);
}

void ShimChannel::ReleaseJob(base::JobId job) {
  if (ledgers_.Has(job)) (void)ledgers_.SetLimits(job, {});
  RemoveJob(job);
}

void ShimChannel::FollowMove(base::JobId job, const std::string& uuid) {
  const auto known = jobs_.find(job);
  const auto before = known == jobs_.end() ? std::nullopt : ledgers_.FollowMove(job, uuid);
  if (!before) return;
  Job& entry = known->second;
  std::swap(entry.refusals_reported[*before], entry.refusals_reported[uuid]);
  std::swap(entry.uncounted_peak[*before], entry.uncounted_peak[uuid]);
  seen_.clear();
}

base::Bytes ShimChannel::UncountedOf(base::JobId job, const std::string& uuid) const {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return {};
  const auto on = known->second.uncounted_by_gpu.find(uuid);
  return on == known->second.uncounted_by_gpu.end() ? base::Bytes{}
                                                    : on->second.written.value_or(base::Bytes{});
}

base::Bytes ShimChannel::ManagedOn(const std::string& uuid) const {
  base::Bytes bytes;
  for (const auto& [job, known] : jobs_)
    for (const auto& managed : ledgers_.ManagedOf(job))
      if (managed.uuid == uuid) bytes += managed.used;
  return bytes;
}

std::optional<base::Bytes> ShimChannel::ContextOn(const std::string& uuid) const {
  const auto found = contexts_.find(uuid);
  return found == contexts_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<ledger::GpuLimit> ShimChannel::WithContexts(std::vector<ledger::GpuLimit> limits) const {
  for (auto& limit : limits) limit.context = ContextOn(limit.uuid).value_or(base::Bytes{});
  return limits;
}

void ShimChannel::ExpectContext(const std::string& uuid, base::Bytes bytes) {
  if (!contexts_.contains(uuid)) SetContext(uuid, bytes);
}

void ShimChannel::SetContext(const std::string& uuid, base::Bytes bytes) {
  contexts_[uuid] = bytes;
  // A ledger that was taken over keeps its limits until SetJob has some.
  for (const auto& [job, entry] : jobs_)
    if (!entry.limits.empty()) (void)ledgers_.SetLimits(job, WithContexts(entry.limits));
}

std::optional<ledger::FirstAndLastRefusal> ShimChannel::RefusalOf(base::JobId job) const {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return std::nullopt;
  std::optional<ledger::FirstAndLastRefusal> newest;
  for (auto& refusals : ledgers_.RefusalsOf(job)) {
    if (refusals.last.at < NanosecondsOf(known->second.run_began)) continue;
    if (!newest || refusals.last.at > newest->last.at) newest = std::move(refusals);
  }
  return newest;
}

std::map<std::string, std::uint64_t> ShimChannel::RefusalCountsOf(base::JobId job) const {
  std::map<std::string, std::uint64_t> counts;
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return counts;
  for (const auto& refusals : ledgers_.RefusalsOf(job))
    if (refusals.last.at >= NanosecondsOf(known->second.run_began))
      counts[refusals.last.uuid] = CountOf(refusals);
  return counts;
}

std::vector<jobs::MemoryPeak> ShimChannel::PeaksOnGpusOf(base::JobId id) const {
  std::vector<jobs::MemoryPeak> peaks;
  const auto known = jobs_.find(id);
  if (known == jobs_.end() || !known->second.all_count || known->second.overwritten) return peaks;
  for (const auto& [uuid, counted] : ledgers_.PeaksOf(id)) {
    if (counted.count == 0) continue;
    const auto beside = known->second.uncounted_peak.find(uuid);
    const auto uncounted = beside == known->second.uncounted_peak.end() ? base::Bytes{} : beside->second;
    auto parts = ledgers_.PartsOfPeak(id, uuid);
    if (parts) parts->uncounted = uncounted;
    peaks.push_back({uuid, {}, {}, counted + uncounted, parts});
  }
  return peaks;
}

std::optional<jobs::MemoryPeak> ShimChannel::LargestPeakOf(base::JobId id) const {
  const auto peaks = PeaksOnGpusOf(id);
  const auto largest = std::ranges::max_element(peaks, {}, &jobs::MemoryPeak::bytes);
  return largest == peaks.end() ? std::nullopt : std::optional(*largest);
}

std::vector<jobs::MemoryPeak> ShimChannel::PeaksOf(base::JobId id) const {
  auto peaks = PeaksOnGpusOf(id);
  for (auto& [pid, program, uuid, parts] : ledgers_.ProcessPeaksOf(id))
    peaks.push_back({std::move(uuid), pid, std::move(program), parts.Sum(), parts});
  return peaks;
}

std::vector<base::JobId> ShimChannel::RefusedAnew() {
  std::vector<base::JobId> anew;
  for (auto& [id, job] : jobs_) {
    bool any = false;
    for (const auto& [last, first] : ledgers_.RefusalsOf(id))
      any |= std::exchange(job.refusals_reported[last.uuid], last.number) != last.number;
    if (any) anew.push_back(id);
  }
  return anew;
}

void ShimChannel::SetRun(base::JobId job, base::MonoTime began) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  known->second.run_began = began;
  LookForLockFloodAnew(job);
  ledgers_.ForgetFirstRefusals(job, NanosecondsOf(began));
}

// Whether a process does not count in three samples in a row. The driver may show one that has ended, and
// whose slot was taken back, for a moment.
bool ShimChannel::LastsUncounted(UncountedOnGpu& on, const std::vector<ledger::ProcessSample>& samples) {
  constexpr unsigned kLasts = 3;
  std::map<base::ProcessId, unsigned> now;
  for (const auto& sample : samples)
    if (!sample.counted) now[sample.process] = on.uncounted[sample.process] + 1;
  on.uncounted = std::move(now);
  return std::ranges::any_of(on.uncounted, [](const auto& one) { return one.second >= kLasts; });
}

ShimChannel::Findings ShimChannel::OnSample(const guard::GpuStatus& status) {
  constexpr unsigned kEnough = 8;  // after this many rounds with the same figures the findings do not change
  Findings findings;
  const auto& uuid = status.gpu.uuid;
  LastGpuFigures& seen_before = seen_[uuid];
  seen_before.rounds = seen_before.processes == status.processes ? seen_before.rounds + 1 : 0;
  if (seen_before.rounds > kEnough) return findings;
  seen_before.processes = status.processes;
  std::map<base::JobId, std::vector<ledger::ProcessSample>> samples;
  for (const auto& [job, known] : jobs_)
    if (known.uncounted_by_gpu.contains(uuid)) samples[job];
  for (const auto& process : status.processes) {
    if (!process.job || !jobs_.contains(*process.job) || !process.memory) continue;
    samples[*process.job].push_back({process.id, *process.memory,
                                     ledgers_.OnGpuOf(*process.job, process.id, uuid),
                                     ledgers_.IsMoving(*process.job, process.id, uuid),
                                     ledgers_.OrdersOf(*process.job, process.id, uuid)});
  }
  for (const auto& [id, seen] : samples) {
    Job& job = jobs_.at(id);
    UncountedOnGpu& on =
        job.uncounted_by_gpu.try_emplace(uuid, UncountedOnGpu{{}, base::Bytes{}}).first->second;
    auto& outside = on.outside;
    auto& written = on.written;
    const base::Bytes bytes = outside.Observe(seen);
    base::Bytes& most = job.uncounted_peak[uuid];
    most = std::max(most, outside.lasting());
    if (written != bytes) {
      written = bytes;
      ledgers_.SetUncounted(id, uuid, bytes);
    }
    if (outside.context() && learned_.insert(uuid).second) {
      spdlog::info("a context takes {} on {}", base::FormatBytes(*outside.context()), uuid);
      SetContext(uuid, *outside.context());
      findings.context = *outside.context();
    }
    if (!seen.empty() && !job.overwritten && !ledgers_.Intact(id)) {
      job.overwritten = true;
      findings.overwritten.push_back(id);
    }
    bool all = !job.overwritten;
    base::Bytes counted{};
    for (const auto& look : seen) {
      all = all && look.counted;
      counted += look.counted.value_or(base::Bytes{});
    }
    job.all_count = job.all_count && !LastsUncounted(on, seen);
    findings.counted[id] = all ? std::optional(counted) : std::nullopt;
    if (seen.empty()) job.uncounted_by_gpu.erase(uuid);
  }
  return findings;
}

std::vector<base::JobId> ShimChannel::LockFloods() {
  std::vector<base::JobId> floods;
  for (auto& [id, job] : jobs_)
    if (ledgers_.Has(id) && job.lock_flood.Observe(ledgers_.LockCostOf(id)) &&
        !std::exchange(job.flood_reported, true))
      floods.push_back(id);
  return floods;
}

void ShimChannel::LookForLockFloodAnew(base::JobId job) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  known->second.lock_flood = {};
  known->second.flood_reported = false;
}

void ShimChannel::SetSampled(const gpu::GpuSample& sample) {
  if (sample.processes) ledgers_.SetSampled(sample.uuid, sample.taken_at);
}

}  // namespace gpuman::daemon
