// A process of a job for tests of the daemon: a process of its own, with a shim that does only what the test
// says. It joins its ledger through the daemon's socket, reads its orders and writes its slot there, and
// sends notifications from its process (docs/shim-protocol.md).
//
// Its view of the ledger is mapped in the test, which plays the shim's threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/fd.h"
#include "base/ids.h"
#include "base/process.h"
#include "ledger/wire/layout.h"
#include "ledger/wire/messages.h"
#include "ledger/wire/orders.h"
#include "ledger/wire/rest.h"

namespace gpuman::daemon {

class FakeShim {
 public:
  // `serve` lets the daemon work for a moment; it is called until the daemon has answered.
  FakeShim(const std::filesystem::path& socket, base::JobId job, const std::function<void()>& serve);
  ~FakeShim();  // the process ends
  FakeShim(const FakeShim&) = delete;
  FakeShim& operator=(const FakeShim&) = delete;

  bool joined() const { return ledger_ != nullptr; }
  const base::ProcessId& process() const { return process_; }
  ledger::wire::Slot& slot() const { return ledger_->slot[slot_]; }

  // --- what the daemon says
  ledger::wire::OrderKind ordered() const;
  bool HasOrder() const;  // that it has not answered
  std::uint64_t patience() const;
  // The call grant that is open; nullopt: there was none, it was withdrawn, or it has ended.
  std::optional<ledger::wire::CallGrant> grant() const;

  // --- what the shim does
  // The program has a context. `flags`: of the slot.
  void MakesContext(std::uint32_t flags = ledger::wire::kTakesCallGrants | ledger::wire::kNotifiesAnswers);
  // The gate is closed. `works`: the GPUs that work, `waits`: those for which threads wait, a bit each;
  // `state`: kRestInFlight and its like.
  void Closes(std::uint16_t works, std::uint16_t waits, std::uint32_t state = 0);
  // It has carried out its order: to hold, to run.
  void IsHeld(std::uint16_t waits = 0);
  void Runs();
  // The order has failed, and the process runs on.
  void Refuses(ledger::wire::OrderError why);
  void EndsGrant(ledger::wire::CallGrantEndReason why, unsigned calls);

  // --- what the process does
  void Notify() const;
  void Stop() const;  // SIGSTOP
  void End();

 private:
  void Join(const ledger::wire::Welcome& welcome, const base::Fd& owner);
  void Answer(ledger::wire::MemoryResidency residency, ledger::wire::OrderError error) const;
  void Opens(ledger::wire::OrderError error);
  void Tell(std::uint16_t works, std::uint16_t waits, std::uint32_t state);

  pid_t pid_ = -1;
  base::ProcessId process_;
  base::Fd commands_;  // to the process
  ledger::wire::Ledger* ledger_ = nullptr;
  unsigned slot_ = 0;
  std::uint32_t changes_ = 0;
};

}  // namespace gpuman::daemon
