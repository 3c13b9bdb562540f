#include "mover/driver_checkpointer.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::ProcessId;
using base::Result;
using suspend::DriverState;
using suspend::GpuMove;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
using suspend::MoverRequest;
using suspend::Verb;
namespace abi = driver::abi;

DriverState DriverStateOf(abi::CUprocessState state) {
  switch (state) {
    case abi::CU_PROCESS_STATE_RUNNING:
      return DriverState::kRunning;
    case abi::CU_PROCESS_STATE_LOCKED:
      return DriverState::kLocked;
    case abi::CU_PROCESS_STATE_CHECKPOINTED:
      return DriverState::kCheckpointed;
    case abi::CU_PROCESS_STATE_FAILED:
      return DriverState::kBroken;
    case abi::CU_PROCESS_STATE_CHECKPOINTING:
    case abi::CU_PROCESS_STATE_RESTORING:
      break;
  }
  return DriverState::kUnknown;
}

MoverOutcome OutcomeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kTimeout:
      return MoverOutcome::kTimeout;
    case ErrorCode::kExhausted:
      return MoverOutcome::kNoRoom;
    case ErrorCode::kNotSupported:
      return MoverOutcome::kRefused;
    default:
      return MoverOutcome::kFailed;
  }
}

bool Lives(const ProcessId& process) { return base::IsAlive(process); }

MoverAnswer Gone(const ProcessId& process) {
  return {.outcome = MoverOutcome::kGone, .message = fmt::format("process {} has ended", process.pid)};
}

// `answer` for a process that is in `state` after a call was made for it.
MoverAnswer At(const tl::expected<DriverState, MoverAnswer>& state, MoverAnswer answer) {
  if (state) {
    answer.state = *state;
  } else if (state.error().outcome == MoverOutcome::kGone) {
    answer = state.error();
  } else {
    answer.outcome = MoverOutcome::kLost;
  }
  return answer;
}

// Makes the call only if the pid still belongs to the process just before it.
template <typename Call>
Result<> Checked(const ProcessId& process, Call call) {
  if (!Lives(process)) return Fail(ErrorCode::kNotFound, fmt::format("process {} has ended", process.pid));
  return call();
}

Result<std::vector<abi::CUcheckpointGpuPair>> PairsOf(const std::vector<GpuMove>& moves) {
  std::vector<abi::CUcheckpointGpuPair> pairs;
  for (const GpuMove& move : moves) {
    const auto from = driver::ParseUuid(move.from), to = driver::ParseUuid(move.to);
    if (!from || !to)
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is no GPU's UUID", from ? move.to : move.from));
    abi::CUcheckpointGpuPair pair{};
    pair.oldUuid = *from;
    pair.newUuid = *to;
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace

DriverCheckpointer DriverCheckpointer::WithDriver() {
  auto driver = driver::CudaDriver::Load();
  if (driver) {
    // There is a driver, but it does not work just now.
    if (auto initialised = driver->Init(); !initialised)
      return DriverCheckpointer(Fail(ErrorCode::kInternal, initialised.error().message));
  }
  return DriverCheckpointer(std::move(driver));
}

MoverAnswer DriverCheckpointer::Can() const {
  if (!driver_) {
    const bool missing = driver_.error().code == ErrorCode::kUnavailable;
    return {.outcome = missing ? MoverOutcome::kUnsupported : MoverOutcome::kFailed,
            .message = driver_.error().message};
  }
  if (!driver_->CanCheckpoint())
    return {.outcome = MoverOutcome::kUnsupported,
            .message = "this driver cannot checkpoint processes (that came with version 570)"};
  return {.outcome = MoverOutcome::kDone};
}

MoverAnswer DriverCheckpointer::Perform(const MoverRequest& request) const {
  const auto begin = std::chrono::steady_clock::now();
  MoverAnswer answer = Can();
  if (answer.outcome == MoverOutcome::kDone) {
    switch (request.verb) {
      case Verb::kCan:
        break;
      case Verb::kState:
        answer = AnswerOf(request.process);
        break;
      case Verb::kCheckpoint:
        answer = Checkpoint(request);
        break;
      case Verb::kRestore:
        answer = Restore(request);
        break;
      case Verb::kUnlock:
        answer = Unlock(request);
        break;
      default:
        answer = {.outcome = MoverOutcome::kFailed, .message = "this is no checkpoint call"};
    }
  }
  answer.id = request.id;
  if (request.verb == Verb::kCheckpoint || request.verb == Verb::kRestore)
    answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  return answer;
}

tl::expected<DriverState, MoverAnswer> DriverCheckpointer::StateOf(const ProcessId& process) const {
  if (!Lives(process)) return tl::unexpected(Gone(process));
  const auto state = driver_->ProcessState(process.pid);
  if (!state) return tl::unexpected(Failure(process, state.error()));
  if (!*state)
    return tl::unexpected(MoverAnswer{.outcome = MoverOutcome::kNoCuda, .state = DriverState::kRunning});
  const DriverState saved = DriverStateOf(**state);
  if (saved == DriverState::kUnknown)
    return tl::unexpected(MoverAnswer{
        .message = fmt::format("process {} is just being checkpointed or restored", process.pid)});
  return saved;
}

MoverAnswer DriverCheckpointer::AnswerOf(const ProcessId& process) const {
  const auto state = StateOf(process);
  return state ? MoverAnswer{.outcome = MoverOutcome::kDone, .state = *state} : state.error();
}

// When a process ends, its calls fail in any way: the answer is that it has ended.
MoverAnswer DriverCheckpointer::Failure(const ProcessId& process, const base::Error& error) const {
  if (!Lives(process)) return Gone(process);
  return {.outcome = OutcomeOf(error.code), .message = error.message};
}

MoverAnswer DriverCheckpointer::LetRunOn(const MoverRequest& request, const base::Error& error) const {
  const ProcessId& process = request.process;
  MoverAnswer answer = Failure(process, error);
  auto state = StateOf(process);
  if (state && *state == DriverState::kCheckpointed) {
    (void)Checked(process, [&] { return driver_->RestoreProcess(process.pid); });
    state = StateOf(process);
  }
  if (state && *state == DriverState::kLocked) {
    (void)Checked(process, [&] { return driver_->UnlockProcess(process.pid); });
    state = StateOf(process);
  }
  return At(state, answer);
}

MoverAnswer DriverCheckpointer::Checkpoint(const MoverRequest& request) const {
  const ProcessId& process = request.process;
  const auto state = StateOf(process);
  if (!state) return state.error();
  if (*state == DriverState::kCheckpointed) return {.outcome = MoverOutcome::kDone, .state = *state};
  if (*state == DriverState::kBroken)
    return {.state = *state, .message = fmt::format("the driver says that process {} failed", process.pid)};
  // A mover that was killed left the process locked.
  if (*state == DriverState::kRunning) {
    auto locked = Checked(process, [&] { return driver_->LockProcess(process.pid, request.lock_timeout); });
    if (!locked) return LetRunOn(request, locked.error());
  }
  auto saved = Checked(process, [&] { return driver_->CheckpointProcess(process.pid); });
  if (!saved) return LetRunOn(request, saved.error());
  return {.outcome = MoverOutcome::kDone, .state = DriverState::kCheckpointed};
}

MoverAnswer DriverCheckpointer::Restore(const MoverRequest& request) const {
  const ProcessId& process = request.process;
  const auto state = StateOf(process);
  if (!state) return state.error();
  if (*state == DriverState::kBroken)
    return {.state = *state, .message = fmt::format("the driver says that process {} failed", process.pid)};
  if (*state == DriverState::kCheckpointed) {
    const auto pairs = PairsOf(request.gpus);
    auto restored = pairs ? Checked(process, [&] { return driver_->RestoreProcess(process.pid, *pairs); })
                          : Result<>(Fail(pairs.error()));
    if (!restored) {
      const MoverAnswer answer = Failure(process, restored.error());
      return At(StateOf(process), answer);
    }
  }
  return Unlock(request);
}

MoverAnswer DriverCheckpointer::Unlock(const MoverRequest& request) const {
  const ProcessId& process = request.process;
  const auto state = StateOf(process);
  if (!state) return state.error();
  if (*state == DriverState::kRunning) return {.outcome = MoverOutcome::kDone, .state = *state};
  if (*state != DriverState::kLocked)
    return {.state = *state,
            .message = fmt::format("process {} is {} and cannot be unlocked", process.pid,
                                   suspend::ToString(*state))};
  const auto unlocked = Checked(process, [&] { return driver_->UnlockProcess(process.pid); });
  const MoverAnswer answer =
      unlocked ? MoverAnswer{.outcome = MoverOutcome::kDone} : Failure(process, unlocked.error());
  return At(StateOf(process), answer);
}

}  // namespace gpuman::mover
