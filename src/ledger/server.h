// The socket on which the shims of a job's processes ask for their ledger.
//
// Transport only: the caller decides which process may join which ledger; ledgers.h says what a ledger is.
// Not thread-safe; never blocks, whatever descriptors a process passes along. The server has one descriptor
// for all events that it waits for, so any event loop can drive it. To find the job of a process, the caller
// has to look at the machine's processes, so each Serve answers only one process, and users take turns.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/result.h"
#include "base/round_robin_queue.h"
#include "base/untrusted_socket.h"
#include "ledger/ledgers.h"
#include "ledger/wire/messages.h"

namespace gpuman::ledger {

// A process that asks for its ledger. `process` and `uid` come from the kernel, the other members from the
// process itself.
struct LedgerRequest {
  base::ProcessId process;
  uid_t uid = 0;
  std::optional<base::JobId> claimed_job;
  std::string key;
};

// Says whose ledger the process gets. kLater: the job is not known yet, but may be in a moment; the caller
// then calls Server::AskAgain. kNotYet: the callback needs more than one look to find out; the server asks it
// again by itself.
enum class AttributionOutcome { kJob, kNobody, kLater, kNotYet };
struct JobAttribution {
  AttributionOutcome outcome = AttributionOutcome::kNobody;
  base::JobId job{};  // kLater: the job that the process waits for, or none
};
using Attribute = std::function<JobAttribution(const LedgerRequest&)>;
// The shim of a process of the job speaks another version of the protocol: the process goes on without a
// ledger.
using OtherVersion = std::function<void(base::JobId job, const LedgerRequest& caller, std::uint32_t version)>;

// A process was ordered off its GPU (kOut) or back. On this connection, the process talks to the mover that
// takes its memory or gives it back (wire/transfer.h).
enum class TransferDirection { kOut, kBack };
using TransferListener =
    std::function<void(base::JobId, base::ProcessId, TransferDirection, base::UntrustedSocket connection)>;

// A process has something new to say in its slot (Ledgers::SlotStatusesOf).
using SlotListener = std::function<void(base::JobId, base::ProcessId)>;

// New processes have to wait, because the daemon cannot accept them (for example, it has no descriptors
// left).
using ErrorHandler = std::function<void(const base::Error&)>;

class Server {
 public:
  // Serves on a socket that listens already (unix, seqpacket, non-blocking). `ledgers` outlives the server.
  static base::Result<Server> Make(base::Fd listening, Ledgers& ledgers, Attribute attribute,
                                   OtherVersion other_version = {});
  ~Server();
  Server(Server&&) = default;
  Server& operator=(Server&&) = delete;

  // Without this callback the server sends such processes away: their memory stays where it is.
  void SetTransferListener(TransferListener listener) { transfer_listener_ = std::move(listener); }

  void SetSlotListener(SlotListener listener) { slot_listener_ = std::move(listener); }

  // The server calls it with the first error, and again only after it could accept a process in between.
  void SetErrorHandler(ErrorHandler handler) { on_error_ = std::move(handler); }

  // Readable when Serve has something to do.
  int descriptor() const { return poll_.get(); }
  // Does a part of the pending work: accepts new processes, and answers one process.
  void Serve();
  // New jobs exist: the server asks again about every process that came too early, when it is the process's
  // turn.
  void AskAgain();
  // A new job exists: the server asks again only about processes that wait for this job, or for no particular
  // job.
  void AskAgain(base::JobId job);

 private:
  static constexpr std::size_t kMaxWaiting = 4096;
  using Clock = std::chrono::steady_clock;
  struct Wakers {
    base::Fd pause;     // fires when the server listens again
    base::Fd patience;  // fires when a process has said nothing for too long
    base::Fd retry;     // fires when the server asks again about a process whose job was not found (kNotYet)
    base::Fd turn;      // readable while a process can be answered
  };
  using Number = std::uint64_t;  // of a connection; never used again
  struct Waiting {
    base::UntrustedSocket connection;
    Clock::time_point since;
    std::uint64_t accepted;  // base::TicksNow
    uid_t user;
    pid_t pid;  // of the process that connected; may be another's by now
    bool spoke = false;
  };
  struct Early {
    Waiting waiting;
    wire::ShimHello hello;
    base::JobId job;
    bool in_turn = false;  // it is in turns_
    bool listed = false;   // in to_retry_
  };
  // What the server has to learn before it can answer a process.
  struct Awaited {
    base::JobId job{};  // 0: no particular job
    bool retry = false;
  };
  Server(base::Fd listening, base::Fd poll, Wakers wakers, Ledgers& ledgers, Attribute attribute,
         OtherVersion other_version)
      : listening_(std::move(listening)),
        poll_(std::move(poll)),
        wakers_(std::move(wakers)),
        ledgers_(&ledgers),
        attribute_(std::move(attribute)),
        other_version_(std::move(other_version)) {}
  void Accept();
  void Admit(base::UntrustedSocket connection);
  void Pause(int reason);
  void GoOn();
  void Queue(int connection);
  void EnterTurn(uid_t user, Number number);
  void TakeTurn();
  void Hear(Waiting waiting, Number number);
  void Keep(Early early, Number number, const Awaited& awaited);
  // nullopt: the process was answered, or sent away.
  std::optional<Awaited> Treat(Waiting& waiting, const wire::ShimHello& hello);
  bool HearAtOnce(const Waiting& waiting, const wire::ShimHello& hello);
  std::optional<Awaited> PassOn(Waiting& waiting, const wire::ShimHello& hello);
  std::optional<Awaited> Answer(const Waiting& waiting, const wire::ShimHello& hello);
  void AskAgain(std::optional<base::JobId> job);
  void AskAbout(Number number);
  void Retry();
  void RetryNextOf(uid_t user);
  bool MakeRoomFor(uid_t user);
  void Forget(const Waiting& waiting);
  static std::chrono::seconds PatienceWith(const Waiting& waiting);
  void DropOld();
  void WaitForOldest();

  base::Fd listening_, poll_;
  Wakers wakers_;
  bool paused_ = false;
  bool error_reported_ = false;
  std::shared_ptr<base::Closer> closer_ = std::make_shared<base::Closer>();  // UntrustedSocket shares it
  Ledgers* ledgers_;
  Attribute attribute_;
  TransferListener transfer_listener_;
  SlotListener slot_listener_;
  ErrorHandler on_error_;
  OtherVersion other_version_;
  Number last_ = 0;
  std::map<Number, Waiting> waiting_;  // connected, and nothing read from it yet
  std::map<int, Number> silent_;       // the processes of waiting_ that have said nothing, by descriptor
  std::map<Number, Early> early_;      // read from, and not answered yet
  // Processes that have spoken, or about which the server asks again.
  base::RoundRobinQueue<Number> turns_;
  std::map<uid_t, std::deque<Number>> to_retry_{};  // the server retries one process of each user at a time
  bool retries_ = false;                            // the timer runs
};

// Listens at `path` and replaces a socket that is there.
base::Result<base::Fd> ListenForShims(const std::filesystem::path& path, mode_t mode);

}  // namespace gpuman::ledger
