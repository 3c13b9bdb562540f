#include "daemon/sharing/memory_restores.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <utility>

#include "daemon/shims/shim_channel.h"
#include "daemon/shims/slot_state.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {
namespace {

using suspend::MoverAnswer;
using suspend::MoverOutcome;
using suspend::Verb;

constexpr int kMaxTries = 50;
constexpr base::Millis kRetry{100};

}  // namespace

MemoryRestores::MemoryRestores(boost::asio::io_context& loop, ShimChannel& shims,
                               SuspendController& suspension, Tell tell)
    : loop_(loop),
      shims_(shims),
      suspension_(suspension),
      movers_(suspension.movers()),
      tell_(std::move(tell)) {}

void MemoryRestores::Begin(const SharedJob& job, share::OrderId order) {
  Job& its = jobs_[job.id];
  Restore& current = its.current.emplace(Restore{job.owner, order});
  for (const auto& one : shims_.SlotStatusesOf(job.id)) {
    const auto homes = HomesOf(one, job.gpus);
    for (const auto& home : homes) {
      const ProcessGpu key{one.process, home.uuid};
      if (home.evicted.count == 0 || its.loaded.contains(key)) continue;
      current.loads[key] = {.source = SourceName(homes, home), .need = home.evicted};
    }
  }
  if (current.loads.empty()) return Finish(job.id);
  suspension_.PrepareMovers();  // copies of what comes back may be kept
  for (const auto& [key, load] : current.loads) Start(job.id, current, key, {});
}

MemoryRestores::Restore* MemoryRestores::FindUnderWay(base::JobId job, share::OrderId order) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.current) return nullptr;
  Restore& current = *found->second.current;
  return current.order == order && !current.stopping ? &current : nullptr;
}

void MemoryRestores::Start(base::JobId job, const Restore& current, const ProcessGpu& key, base::Bytes room) {
  movers_.Move(
      current.owner,
      {.verb = Verb::kLoad, .process = key.process, .source = current.loads.at(key).source, .room = room}, {},
      self_.Bind([job, key, order = current.order](MemoryRestores& me, const MoverAnswer& answer) {
        me.OnEnd(job, key, order, answer);
      }),
      self_.Bind([job, key, order = current.order](MemoryRestores& me, const MoverAnswer& notice) {
        if (notice.outcome == MoverOutcome::kMoving)
          me.OnLoaded(job, key, order, notice.bytes, notice.bytes - notice.unchanged);
      }));
}

void MemoryRestores::OnLoaded(base::JobId job, const ProcessGpu& key, share::OrderId order, base::Bytes bytes,
                              base::Bytes copied) {
  Restore* const current = FindUnderWay(job, order);
  if (!current) return;
  Load& load = current->loads.at(key);
  load.copied += copied;
  const base::Bytes told = std::min(load.again, bytes);
  load.again = load.again - told;
  bytes = std::min(bytes - told, load.need - load.came);
  if (bytes.count == 0) return;
  load.came += bytes;
  tell_(share::event::MovedIn{job, key.gpu, bytes, bytes - copied});
}

void MemoryRestores::OnEnd(base::JobId job, const ProcessGpu& key, share::OrderId order,
                           const MoverAnswer& answer) {
  Restore* const current = FindUnderWay(job, order);
  if (!current) return;
  Load& load = current->loads.at(key);
  const bool over = !base::IsAlive(key.process);
  if (answer.outcome == MoverOutcome::kDone) {
    jobs_.at(job).loaded[key] = load.need;
    // The part not told yet; memory that was on the GPU already was not copied.
    OnLoaded(job, key, order, load.need + load.again, answer.bytes - answer.unchanged - load.copied);
    if (FindUnderWay(job, order) != current) return;
  } else if (!over && (answer.outcome == MoverOutcome::kLost || answer.outcome == MoverOutcome::kNoRoom) &&
             ++load.tries < kMaxTries) {
    // The mover died, or other jobs are just giving up the memory.
    return TryAgain(job, key, order);
  } else if (!over) {
    return Stop(job, answer.message);
  }
  load.done = true;
  if (std::ranges::all_of(current->loads, [](const auto& one) { return one.second.done; })) Finish(job);
}

void MemoryRestores::TryAgain(base::JobId job, const ProcessGpu& key, share::OrderId order) {
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop_);
  timer->expires_after(kRetry);
  timer->async_wait(
      self_.Bind([timer, job, key, order](MemoryRestores& me, const boost::system::error_code&) {
        Restore* const current = me.FindUnderWay(job, order);
        if (!current) return;
        Load& load = current->loads.at(key);
        load.again = load.came;
        load.copied = {};
        me.Start(job, *current, key, load.granted);
      }));
}

void MemoryRestores::Grant(base::JobId job, const std::string& gpu, base::Bytes bytes) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.current) return;
  Restore& current = *found->second.current;
  for (auto& [key, load] : current.loads) {
    if (key.gpu != gpu) continue;
    const base::Bytes part = std::min(bytes, load.need - load.granted);
    if (part.count == 0) continue;
    load.granted += part;
    bytes = bytes - part;
    movers_.Grant(current.owner, key.process, load.source, part);
  }
}

void MemoryRestores::Give(const SharedJob& job, base::ProcessId process, base::UntrustedSocket connection,
                          std::function<void()> then) {
  movers_.Move(job.owner, {.verb = Verb::kGive, .process = process}, std::move(connection),
               self_.Bind([then = std::move(then)](MemoryRestores&, const MoverAnswer&) { then(); }));
}

void MemoryRestores::Stop(base::JobId job, const std::string& why) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.current) return;
  Restore& current = *found->second.current;
  if (std::exchange(current.stopping, true)) return;
  current.why = why;
  for (const auto& [key, load] : current.loads) {
    ++current.securing;
    found->second.loaded.erase(key);
    Secure(current.owner, key.process, load.source,
           self_.Bind([job, order = current.order](MemoryRestores& me, const MoverAnswer&) {
             const auto there = me.jobs_.find(job);
             if (there == me.jobs_.end() || !there->second.current || there->second.current->order != order)
               return;
             if (--there->second.current->securing == 0) me.Finish(job);
           }));
  }
}

void MemoryRestores::Abort(const SharedJob& job) {
  const auto found = jobs_.find(job.id);
  if (found == jobs_.end()) return;
  std::set<base::ProcessId> loaded;  // the mover has memory of them on a GPU, or is about to
  if (found->second.current)
    for (const auto& [key, load] : found->second.current->loads) loaded.insert(key.process);
  for (const auto& [key, bytes] : found->second.loaded) loaded.insert(key.process);
  jobs_.erase(found);
  for (const auto& process : loaded) Secure(job.owner, process, {}, {});
}

void MemoryRestores::Finish(base::JobId job) {
  auto& current = jobs_.at(job).current;
  const share::event::RestoreDone done{job, current->order, std::move(current->why)};
  current.reset();
  tell_(done);
}

bool MemoryRestores::IsUnderWay(base::JobId job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && found->second.current;
}

std::set<std::string> MemoryRestores::GpusOf(base::JobId job) const {
  std::set<std::string> gpus;
  if (const auto found = jobs_.find(job); found != jobs_.end() && found->second.current)
    for (const auto& [key, load] : found->second.current->loads) gpus.insert(key.gpu);
  return gpus;
}

base::Bytes MemoryRestores::HostMemoryOfRestores() const {
  base::Bytes bytes;
  for (const auto& [id, job] : jobs_)
    if (job.current && !job.current->stopping) bytes += shims_.HostMemoryOf(id);
  return bytes;
}

base::Bytes MemoryRestores::LoadedOf(base::JobId job, const ProcessGpu& key) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  const auto its = found->second.loaded.find(key);
  return its == found->second.loaded.end() ? base::Bytes{} : its->second;
}

bool MemoryRestores::HasLoaded(base::JobId job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && !found->second.loaded.empty();
}

void MemoryRestores::ForgetLoaded(base::JobId job) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) found->second.loaded.clear();
}

void MemoryRestores::ForgetLoaded(base::JobId job,
                                  const std::function<bool(const base::ProcessId&)>& is_gone) {
  if (const auto found = jobs_.find(job); found != jobs_.end())
    std::erase_if(found->second.loaded, [&](const auto& one) { return is_gone(one.first.process); });
}

base::Bytes MemoryRestores::SecureLoaded(const SharedJob& job, const std::string& gpu, base::Bytes wanted,
                                         const std::function<void()>& begin, const Secured& done) {
  base::Bytes secured;
  const auto found = jobs_.find(job.id);
  if (found == jobs_.end()) return secured;
  for (const auto& one : shims_.SlotStatusesOf(job.id)) {
    const ProcessGpu key{one.process, gpu};
    const auto loaded = found->second.loaded.find(key);
    if (loaded == found->second.loaded.end() || secured >= wanted) continue;
    base::Bytes bytes;  // 0: the process has taken it since
    std::string source;
    const auto homes = HomesOf(one, job.gpus);
    for (const auto& home : homes) {
      if (home.uuid != gpu) continue;
      bytes = std::min(loaded->second, home.evicted);
      source = SourceName(homes, home);
    }
    found->second.loaded.erase(loaded);
    if (bytes.count == 0) continue;
    secured += bytes;
    begin();
    Secure(job.owner, one.process, source, [key, bytes, done](const MoverAnswer& answer) {
      done(key, bytes, answer.bytes - answer.unchanged);
    });
  }
  return secured;
}

void MemoryRestores::Secure(const suspend::MoverUser& owner, base::ProcessId process,
                            const std::string& source, suspend::Checkpointer::Done done) {
  movers_.Move(owner, {.verb = Verb::kSecure, .process = process, .source = source}, {}, std::move(done));
}

}  // namespace gpuman::daemon
