// The socket on which the shims of a job's processes ask for their ledger.
//
// Transport alone: who may join what is the caller's decision, what a ledger is stands in ledgers.h. Not
// thread-safe; never blocks, whatever descriptors a process passes along. Everything it waits for is behind
// one descriptor, so any event loop can drive it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/guest_socket.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/result.h"
#include "ledger/ledgers.h"
#include "ledger/wire/messages.h"

namespace gpuman::ledger {

// A process that asks. `process` and `uid` are the kernel's word, the rest is what the process says.
struct Caller {
  base::ProcessId process;
  uid_t uid = 0;
  std::optional<base::JobId> claimed_job;
  std::string key;
};

// Whose ledger the process gets. kLater: that is not known yet, but may be in a moment (Server::AskAgain).
enum class Verdict { kJob, kNobody, kLater };
struct Attribution {
  Verdict verdict = Verdict::kNobody;
  base::JobId job{};  // kLater: the one that is waited for, or none
};
using Attribute = std::function<Attribution(const Caller&)>;
// A process of the job has a shim that speaks another version of the protocol: it goes on without a ledger.
using OtherVersion = std::function<void(base::JobId job, const Caller& caller, std::uint32_t version)>;

// A process that was ordered off its GPU (`out`) or back, and its connection, on which it talks to whoever is
// to take its memory or to give it (wire/transfer.h).
using Transfer = std::function<void(base::JobId, base::ProcessId, bool out, base::GuestSocket connection)>;

// A process has something to say in its slot (Ledgers::StandingsOf).
using Bell = std::function<void(base::JobId, base::ProcessId)>;

// Processes that come are kept waiting, for the reason given: there are no descriptors left.
using Trouble = std::function<void(const base::Error&)>;

class Server {
 public:
  // Serves on a socket that listens already (unix, seqpacket, non-blocking). `ledgers` outlives the server.
  static base::Result<Server> Make(base::Fd listening, Ledgers& ledgers, Attribute attribute,
                                   OtherVersion other_version = {});
  ~Server();
  Server(Server&&) = default;
  Server& operator=(Server&&) = delete;

  // Without one such processes are sent away: they stay where they are.
  void SetTransfer(Transfer transfer) { transfer_ = std::move(transfer); }

  void SetBell(Bell bell) { bell_ = std::move(bell); }

  // Called when it begins, once until somebody could come again.
  void SetTrouble(Trouble trouble) { trouble_ = std::move(trouble); }

  // Readable when Serve has something to do.
  int descriptor() const { return poll_.get(); }
  void Serve();
  // Jobs have come: asks again about those for whom it was too early.
  void AskAgain();
  // A job has come: about those alone who wait for it, or for no job in particular.
  void AskAgain(base::JobId job);

 private:
  using Clock = std::chrono::steady_clock;
  struct Timers {
    base::Fd pause;     // then it listens again
    base::Fd patience;  // then somebody has said nothing for too long
  };
  struct Waiting {
    base::GuestSocket connection;
    Clock::time_point since;
    std::uint64_t accepted;  // base::TicksNow
    uid_t user;
  };
  struct Early {
    Waiting waiting;
    wire::Hello hello;
    base::JobId job;
  };
  Server(base::Fd listening, base::Fd poll, Timers timers, Ledgers& ledgers, Attribute attribute,
         OtherVersion other_version)
      : listening_(std::move(listening)),
        poll_(std::move(poll)),
        timers_(std::move(timers)),
        ledgers_(&ledgers),
        attribute_(std::move(attribute)),
        other_version_(std::move(other_version)) {}
  void Accept();
  void Admit(base::GuestSocket connection);
  void Pause(int reason);
  void GoOn();
  void Hear(int connection);
  void PassOn(Waiting waiting, const wire::Hello& hello);
  // The job that is waited for, where it is too early; a job of 0: for none in particular.
  std::optional<base::JobId> Answer(const Waiting& waiting, const wire::Hello& hello);
  void AskAgain(std::optional<base::JobId> job);
  bool MakeRoomFor(uid_t user);
  void DropOld();
  void WaitForOldest();

  base::Fd listening_, poll_;
  Timers timers_;
  bool paused_ = false;
  bool in_trouble_ = false;
  std::shared_ptr<base::Closer> closer_ = std::make_shared<base::Closer>();  // as GuestSocket has it
  Ledgers* ledgers_;
  Attribute attribute_;
  Transfer transfer_;
  Bell bell_;
  Trouble trouble_;
  OtherVersion other_version_;
  std::map<int, Waiting> waiting_;  // connected, and not heard yet
  std::vector<Early> early_;        // heard, and not answered yet
};

// Listens at `path`, replacing a socket that is there.
base::Result<base::Fd> ListenForShims(const std::filesystem::path& path, mode_t mode);

}  // namespace gpuman::ledger
