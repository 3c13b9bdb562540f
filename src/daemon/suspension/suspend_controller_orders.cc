// Carries out the orders of a job's state machine by shims, mover, driver, store and event log.
#include <boost/asio/post.hpp>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "daemon/core/core.h"
#include "daemon/shims/module.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {

using ledger::wire::OrderKind;
using suspend::SuspensionPhase;

void SuspendController::Perform(base::JobId job, const suspend::Actions& actions) {
  using namespace suspend::action;  // NOLINT(google-build-using-namespace)
  if (!actions.empty()) entries_.at(job).poll.Ordered(core_.clock().Mono());
  for (const auto& action : actions) {
    std::visit(base::Overloaded{
                   [&](const suspend::action::QuiesceJob& order) { Rest(job, order.limit); },
                   [&](const CancelQuiesce&) {
                     if (auto* const quiescer = shims_.quiescer())
                       quiescer->Cancel(job, entries_.at(job).rest);
                   },
                   [&](const OrderEvict& order) {
                     Order(job, order.process, {OrderKind::kLeave, {}});
                   },
                   [&](const OrderFetchToGpu& order) {
                     Order(job, order.process, {.what = OrderKind::kRun, .stay_held = true});
                   },
                   [&](const OrderRestore& order) {
                     // `held`: the job's memory comes back with its turn, and its gate stays shut until then.
                     Order(job, order.process, {.what = order.held ? OrderKind::kHold : OrderKind::kRun});
                   },
                   [&](const AskCan&) {
                     AskDriver(job, {0, suspend::Verb::kCan, {}, {}, {}});
                   },
                   [&](const AskState& ask) {
                     AskDriver(job, {0, suspend::Verb::kState, ask.process, {}, {}});
                   },
                   [&](const suspend::action::Checkpoint& order) { Checkpoint(job, order); },
                   [&](const RestoreCheckpoint& r) {
                     AskDriver(job, {0, suspend::Verb::kRestore, r.process, {}, r.gpus});
                   },
                   [&](const CopyToHost& secure) {
                     AskMover(
                         job,
                         {.verb = suspend::Verb::kSecure, .process = secure.process, .gpu = secure.target});
                   },
                   [&](const CopyToGpu& load) {
                     AskMover(job, {.verb = suspend::Verb::kLoad, .process = load.process, .gpu = load.gpu});
                   },
                   [&](const Moved& moved) {
                     // The job counts on the new GPU even if its return fails afterwards.
                     if (core_.jobs().Find(job))
                       core_.ChangeGpu(job, moved.gpu, [](const base::Result<>&) {});
                   },
                   [](const SetState&) {},  // the record already has it
                   [&](const Emit& emit) { Tell(job, emit); },
               },
               action);
  }
}

void SuspendController::Rest(base::JobId job, base::Millis limit) {
  const auto answer = self_.Bind([job](SuspendController& me, const JobQuiescer::Result& result) {
    me.Observe(job);  // what the processes hold now, and who does not answer
    if (result.rested)
      me.Feed(job, suspend::event::JobQuiesced{result.took, result.calls});
    else
      me.Feed(job, suspend::event::QuiesceFailed{result.why, result.took, result.calls, result.count.units,
                                                 result.count.units - result.count.at_rest});
  });
  if (auto* const quiescer = shims_.quiescer()) {
    entries_.at(job).rest = quiescer->Begin(job, limit, answer);
    return;
  }
  boost::asio::post(core_.loop(),
                    [answer] { answer(JobQuiescer::Result{.why = "there is no way to its shims"}); });
}

// The ledger shows the result of an order, also when no process is there to take it. The ledger names the
// process in a slot, but only attribution says whether that process belongs to the job.
void SuspendController::Order(base::JobId job, base::ProcessId process, const ledger::ProcessOrder& command) {
  auto* const channel = shims_.channel();
  if (channel && core_.guard().JobOf(process.pid).job == job) (void)channel->Order(job, process, command);
}

// Stores the record with the job; calls `done` when it is on the disk, or cannot be stored.
void SuspendController::Save(base::JobId id, std::string record, std::function<void()> done) {
  std::vector<jobs::JobNotice> notices;
  const auto* const job = core_.jobs().Find(id);
  const auto now = suspend::ParseRecord(record);
  if (job && now && now->phase == SuspensionPhase::kSuspended) {
    const auto before = suspend::ParseRecord(job->suspension);
    if (!before || !suspend::IsSuspended(before->phase)) notices.push_back({"job_suspended", now->detail});
  }
  core_.jobs().SetSuspension(id, std::move(record), notices, std::move(done));
}

void SuspendController::Tell(base::JobId id, const suspend::action::Emit& event) {
  const auto* const job = core_.jobs().Find(id);
  if (!job) return;
  core_.AddJobEvent(*job, {event.kind, event.message, event.data});
  core_.SampleNow();  // the job has left a GPU or come to one
  core_.jobs().Note(id, event.message);
}

void SuspendController::AskDriver(base::JobId job, suspend::MoverRequest request) {
  const auto process = request.process;
  const bool can = request.verb == suspend::Verb::kCan;
  const auto answer = self_.Bind([job, process, can](SuspendController& me, const suspend::MoverAnswer& got) {
    using suspend::MoverOutcome;
    if (can && (got.outcome == MoverOutcome::kDone || got.outcome == MoverOutcome::kUnsupported))
      me.checkpoints_ = got.outcome == MoverOutcome::kDone;
    me.Observe(job);  // reads the process's last figures before its memory counts as taken
    me.Feed(job, suspend::event::DriverAnswered{process, got});
    me.Observe(job);
  });
  const auto owner = readings_.OwnerOf(job);
  if (owner) return checkpointer_.Ask(*owner, std::move(request), answer);
  boost::asio::post(core_.loop(), [answer] {
    answer(suspend::MoverAnswer{0, suspend::MoverOutcome::kFailed, suspend::DriverState::kUnknown,
                                "the job is gone"});
  });
}

void SuspendController::AskMover(base::JobId job, suspend::MoverRequest request) {
  const auto answer = self_.Bind([job, process = request.process, verb = request.verb](
                                     SuspendController& me, const suspend::MoverAnswer& got) {
    me.Feed(job, suspend::event::MoverAnswered{process, verb, got});
  });
  const auto owner = readings_.OwnerOf(job);
  if (owner) return checkpointer_.Move(*owner, std::move(request), {}, answer);
  boost::asio::post(core_.loop(), [answer] { answer(suspend::MoverAnswer{.message = "the job is gone"}); });
}

void SuspendController::PassOn(base::JobId job, base::ProcessId process, ledger::TransferDirection direction,
                               base::UntrustedSocket connection) {
  const auto owner = readings_.OwnerOf(job);
  if (!owner) return;  // the process sees the connection close, and stays where it is
  const bool out = direction == ledger::TransferDirection::kOut;
  suspend::MoverRequest request{.verb = out ? suspend::Verb::kTake : suspend::Verb::kGive,
                                .process = process};
  if (const auto* record = RecordOf(job)) {
    if (!out) request.gpu = suspend::ReturnsTo(*record, process);
    if (out && record->phase == SuspensionPhase::kSuspending) request.gpu = record->target.value_or("");
  }
  checkpointer_.Move(
      *owner, std::move(request), std::move(connection),
      self_.Bind([job](SuspendController& me, const suspend::MoverAnswer&) { me.Observe(job); }));
}

}  // namespace gpuman::daemon
