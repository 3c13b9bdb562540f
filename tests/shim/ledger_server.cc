// The daemon's side of the shim's protocol, for tests: one ledger for every process that asks.
//
//   ledger_server SOCKET [--job N] [--gpu UUID LIMIT CONTEXT]… [--nobody] [--evictable BUDGET PATIENCE_MS]
//                 [--adopt PID FD] [--mover PROGRAM]
//
// Prints "ready", then executes one command a line and answers each with one line:
//   limit UUID BYTES   outside UUID BYTES   used UUID   joined   registered PID   reclaim   intact
//   order PID|all 0|1|fetch|hold|take [BYTES [UUID]]…   order PID|all hold_for MILLISECONDS
//   await PID|all MILLISECONDS (until they have answered)   statuses host
//   grant_calls PID GPU|any CALLS [STRIDE] [careful] [behind] (prints the grant's number)   withdraw PID
//   drop   mover (its pid)   stop   notifications   watch MILLISECONDS
//   patience MILLISECONDS (for room) room UUID BYTES|-   offer   whole 0|1 (how memory is taken)   credit
//   BYTES|- (that memory comes back with) grant PID BYTES   moved (bytes that notices told: out, in)
// --nobody answers every process that it is in no job; a BUDGET of - means none; --adopt takes over the
// ledger that the process has open; --mover starts that program (gpuman-mover) when it is first needed, and
// again after it has ended. Ends with its standard input.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <span>
#include <sstream>

#include "ledger/ledgers.h"
#include "ledger/server.h"
#include "ledger/test_reclaim.h"
#include "mover/packet.h"
#include "suspend/mover_link.h"
#include "suspend/request.h"

namespace gpuman::ledger {
namespace {

struct Options {
  std::string socket;
  base::JobId job{1};
  std::vector<GpuLimit> gpus;
  EvictionSettings eviction;
  std::string adopt, mover;
  bool nobody = false;
};

// A gpuman-mover that learns of every process.
class TestMover {
 public:
  explicit TestMover(std::string program) : program_(std::move(program)) {}

  void PassOn(base::ProcessId process, TransferDirection direction, base::UntrustedSocket connection) {
    if (!Start()) return;
    const bool out = direction == TransferDirection::kOut;
    const auto verb = out ? suspend::Verb::kTake : suspend::Verb::kGive;
    suspend::MoverRequest request{.id = ++last_, .verb = verb, .process = process};
    if (out) request.whole = whole;
    if (!out) request.room = credit;
    asked_[Ask(request, connection.get())] = {verb, process};
  }
  void Grant(base::ProcessId process, base::Bytes bytes) {
    Ask({.verb = suspend::Verb::kGrant, .process = process, .bytes = bytes}, -1);
  }

  bool whole = false;                 // how the daemon takes memory of jobs that share
  std::optional<base::Bytes> credit;  // for memory that comes back
  std::uint64_t moved_out = 0, moved_in = 0;

  // Whether requests are open.
  bool Busy() {
    while (socket_.ok() && !asked_.empty()) {
      pollfd entry{socket_.get(), POLLIN, 0};
      if (::poll(&entry, 1, 0) <= 0) break;
      const auto packet = mover::ReceivePacket(socket_.get());
      if (!packet) {
        End();
        break;
      }
      const auto answer = suspend::ParseAnswer(packet->text);
      const auto asked = answer ? asked_.find(answer->id) : asked_.end();
      if (asked == asked_.end() || answer->outcome == suspend::MoverOutcome::kHolding ||
          answer->outcome == suspend::MoverOutcome::kTaken)
        continue;
      const auto [verb, process] = asked->second;
      if (answer->outcome == suspend::MoverOutcome::kMoving) {
        (verb == suspend::Verb::kGive ? moved_in : moved_out) += answer->bytes.count;
        continue;
      }
      asked_.erase(asked);
      if (answer->outcome != suspend::MoverOutcome::kDone) {
        std::cerr << "mover: " << answer->message << std::endl;
      } else if (verb == suspend::Verb::kTake && !whole) {
        // The mover copies what it has taken before it answers this.
        const auto secure = suspend::Verb::kSecure;
        asked_[Ask({.id = ++last_, .verb = secure, .process = process}, -1)] = {secure, process};
      }
    }
    return !asked_.empty();
  }
  pid_t pid() const { return socket_.ok() ? started_.pid : 0; }

  bool Start() {
    if (socket_.ok() && ::kill(started_.pid, 0) == 0 && ::waitpid(started_.pid, nullptr, WNOHANG) == 0)
      return true;
    End();
    auto started = suspend::SpawnMover({program_, {}}, {::geteuid(), ::getegid(), {}});
    if (!started) return false;
    started_ = std::move(*started);
    socket_ = std::move(started_.socket);
    if (!mover::ReceivePacket(socket_.get())) return false;  // its greeting
    // Waits until the mover has a context and some host memory, so that the device's figures of a test do not
    // change.
    for (;;) {
      Ask({.id = ++last_, .verb = suspend::Verb::kPrepare, .bytes = base::MiB(64)}, -1);
      const auto packet = mover::ReceivePacket(socket_.get());
      const auto answer = packet ? suspend::ParseAnswer(packet->text) : base::Result<suspend::MoverAnswer>();
      if (!packet || !answer) return false;
      if (answer->bytes.count != 0) return true;
      ::usleep(1000);
    }
  }

 private:
  void End() {
    socket_.Close();
    asked_.clear();
  }
  std::uint64_t Ask(const suspend::MoverRequest& request, int connection) {
    const std::span<const int> files(&connection, connection >= 0 ? 1 : 0);
    mover::SendPacket(socket_.get(), suspend::Serialize(request), files);
    return request.id;
  }

  const std::string program_;
  base::SpawnedChild started_;
  base::Fd socket_;
  std::map<std::uint64_t, std::pair<suspend::Verb, base::ProcessId>> asked_;
  std::uint64_t last_ = 0;
};

class Test {
 public:
  explicit Test(Options options) : options_(std::move(options)) {}

  base::Result<> Run() {
    if (options_.adopt.empty()) {
      GPUMAN_TRY(ledgers_.Create(options_.job, options_.gpus, options_.eviction));
    } else {
      base::Fd file(::open(options_.adopt.c_str(), O_RDWR | O_CLOEXEC));
      GPUMAN_TRY(ledgers_.Adopt(options_.job, std::move(file), options_.gpus, options_.eviction));
    }
    GPUMAN_ASSIGN(base::Fd listening, ListenForShims(options_.socket, 0666));
    GPUMAN_ASSIGN(
        Server made, Server::Make(std::move(listening), ledgers_, [&](const LedgerRequest& caller) {
          joined_.push_back(caller);
          return options_.nobody ? JobAttribution{} : JobAttribution{AttributionOutcome::kJob, options_.job};
        }));
    Server& server = server_.emplace(std::move(made));
    if (!options_.mover.empty()) {
      mover_.emplace(options_.mover);
      if (!mover_->Start()) return base::Fail(base::ErrorCode::kUnavailable, "the mover does not start");
      server.SetTransferListener([this](base::JobId, base::ProcessId process, TransferDirection direction,
                                        base::UntrustedSocket connection) {
        mover_->PassOn(process, direction, std::move(connection));
      });
    }
    server.SetSlotListener([this](base::JobId, base::ProcessId) { ++notifications_; });
    Say("ready");
    std::string buffer;
    for (;;) {
      pollfd entries[2] = {{server.descriptor(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
      if (::poll(entries, 2, -1) < 0 && errno != EINTR) break;
      if (entries[0].revents != 0) server.Serve();
      if (entries[1].revents == 0) continue;
      char chunk[4096];
      const auto got = ::read(STDIN_FILENO, chunk, sizeof chunk);
      if (got <= 0) break;
      buffer.append(chunk, static_cast<std::size_t>(got));
      for (std::size_t end = 0; (end = buffer.find('\n')) != std::string::npos; buffer.erase(0, end + 1)) {
        if (!Obey(buffer.substr(0, end))) return {};
      }
    }
    return {};
  }

 private:
  static void Say(const std::string& line) { std::cout << line << std::endl; }

  std::optional<base::ProcessId> Find(const std::string& pid) const {
    return base::IdentityOf(static_cast<pid_t>(std::stol(pid)));
  }

  // Bytes without a UUID are the first GPU's.
  ProcessOrder CommandOf(const std::string& what, std::istream& words) const {
    ProcessOrder command{what == "0" || what == "fetch" ? wire::OrderKind::kRun : wire::OrderKind::kLeave,
                         {}};
    command.stay_held = what == "fetch";
    if (what == "hold" || what == "hold_for") command.what = wire::OrderKind::kHold;
    if (what == "take") command.what = wire::OrderKind::kTake;
    for (std::uint64_t number = 0; words >> number;) {
      if (what == "hold_for") command.patience = base::Millis{static_cast<std::int64_t>(number)};
      std::string uuid;
      if (what == "take") command.away[words >> uuid ? uuid : options_.gpus.front().uuid].count = number;
    }
    return command;
  }

  std::string Order(const std::string& whom, const ProcessOrder& command) {
    if (whom == "all") {
      const auto told = ledgers_.OrderAll(options_.job, command);
      return told ? std::to_string(*told) : told.error().message;
    }
    const auto process = Find(whom);
    if (!process) return "no such process";
    const auto ordered = ledgers_.Order(options_.job, *process, command);
    return ordered ? "ok" : ordered.error().message;
  }

  std::string GrantCalls(const std::string& pid, const CallGrant& grant) {
    const auto process = Find(pid);
    if (!process) return "no such process";
    const auto number = ledgers_.GrantCalls(options_.job, *process, grant);
    return number ? std::to_string(*number) : number.error().message;
  }

  static CallGrant GrantOf(std::istream& words) {
    CallGrant grant;
    std::string gpu;
    words >> gpu >> grant.calls;
    if (gpu != "any") grant.gpu = static_cast<unsigned>(std::stoul(gpu));
    for (std::string word; words >> word;) {
      if (word == "careful") {
        grant.careful = true;
      } else if (word == "behind") {
        grant.behind = true;
      } else {
        grant.stride = static_cast<unsigned>(std::stoul(word));
      }
    }
    return grant;
  }

  bool Answered(const std::string& whom) const {
    const auto process = whom == "all" ? std::nullopt : Find(whom);
    for (const SlotStatus& one : ledgers_.SlotStatusesOf(options_.job)) {
      if ((whom == "all" || (process && one.process == *process)) && !one.answered) return false;
    }
    return true;
  }

  // Serves while it waits.
  std::string Await(const std::string& whom, std::uint64_t milliseconds) {
    constexpr int kPollIntervalMs = 2;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    // Reads the mover's notices in any case.
    while ((mover_ && mover_->Busy()) || !Answered(whom)) {
      if (std::chrono::steady_clock::now() > end) return "too late";
      pollfd entry{server_->descriptor(), POLLIN, 0};
      if (::poll(&entry, 1, kPollIntervalMs) > 0) server_->Serve();
    }
    return "ok";
  }

  static std::string RestOf(const SlotStatus& one) {
    return fmt::format(
        R"("takes_grants":{},"shares":{},"rest":{{"shut":{},"in_flight":{},"capturing":{},"anywhere":{},)"
        R"("for_room":{},"works":{},"waits":{}}},"grant_report":[{},{},{}])",
        one.takes_grants, one.shares, one.rest.shut, one.rest.in_flight, one.rest.capturing,
        one.rest.anywhere, one.rest.for_room, one.rest.works, one.rest.waits, one.grant_report.number,
        static_cast<unsigned>(one.grant_report.ended), one.grant_report.calls);
  }

  static std::string HomesOf(const SlotStatus& one) {
    std::string text;
    for (const EvictableGpu& home : one.homes)
      text +=
          fmt::format(R"({}{{"uuid":"{}","evictable":{},"evicted":{},"wants":{}}})", text.empty() ? "" : ",",
                      home.uuid, home.evictable.count, home.evicted.count, home.wants.count);
    return text;
  }

  std::string Statuses() const {
    std::string text;
    for (const SlotStatus& one : ledgers_.SlotStatusesOf(options_.job)) {
      const std::uint64_t held = one.held.empty() ? 0 : one.held.front().used.count;
      text += fmt::format(
          R"({}{{"pid":{},"residency":{},"answered":{},"error":{},"driver":{},"evictable":{},"evicted":{},)"
          R"("managed":{},"held":{},"activity":{},"wants":{},"completed":{},"notifies":{},"fetches":{},"homes":[{}],{}}})",
          text.empty() ? "" : ",", one.process.pid, static_cast<unsigned>(one.residency),
          one.answered ? "true" : "false", static_cast<unsigned>(one.error), one.driver_error,
          one.evictable.count, one.evicted.count, one.managed.count, held,
          static_cast<unsigned>(one.activity), one.wants.count, one.completed,
          one.notifies ? "true" : "false", one.fetches ? "true" : "false", HomesOf(one), RestOf(one));
    }
    return "[" + text + "]";
  }

  bool Obey(const std::string& line) {
    std::istringstream words(line);
    std::string command, uuid;
    std::uint64_t number = 0;
    words >> command;
    if (command == "limit" || command == "outside") words >> uuid >> number;
    if (command == "stop") return false;
    if (command == "limit") {
      for (auto& gpu : options_.gpus)
        if (gpu.uuid == uuid) gpu.hard = base::Bytes{number};
      const auto set = ledgers_.SetLimits(options_.job, options_.gpus);
      Say(set ? "ok" : set.error().message);
    } else if (command == "outside") {
      ledgers_.SetUncounted(options_.job, uuid, {number});
      Say("ok");
    } else if (command == "used") {
      words >> uuid;
      std::uint64_t used = 0;
      for (const auto& gpu : ledgers_.UsageOf(options_.job))
        if (gpu.uuid == uuid) used = gpu.used.count;
      Say(std::to_string(used));
    } else if (command == "joined") {
      Say(std::to_string(joined_.size()));
    } else if (command == "registered") {
      words >> number;
      const auto process = base::IdentityOf(static_cast<pid_t>(number));
      Say(process && ledgers_.Registered(options_.job, *process) ? "yes" : "no");
    } else if (command == "reclaim") {
      Say(std::to_string(ReclaimEnded(options_.job)));
    } else if (command == "intact") {
      Say(ledgers_.Intact(options_.job) ? "yes" : "no");
    } else if (command == "order") {
      std::string whom;
      std::string what;
      words >> whom >> what;
      Say(Order(whom, CommandOf(what, words)));
    } else if (command == "grant_calls") {
      std::string whom;
      words >> whom;
      Say(GrantCalls(whom, GrantOf(words)));
    } else if (command == "withdraw") {
      std::string whom;
      words >> whom;
      Say(GrantCalls(whom, {}));
    } else if (command == "await") {
      std::string whom;
      words >> whom >> number;
      Say(Await(whom, number));
    } else if (command == "statuses") {
      Say(Statuses());
    } else if (command == "host") {
      Say(std::to_string(ledgers_.HostMemoryOf(options_.job).count));
    } else if (command == "mover") {
      Say(std::to_string(mover_ ? mover_->pid() : 0));
    } else if (ObeySharing(command, words)) {
      return true;
    } else if (command == "drop") {
      ledgers_.Drop(options_.job);
      Say("ok");
    } else {
      Say("what?");
    }
    return true;
  }

  bool ObeySharing(const std::string& command, std::istream& words) {
    std::string word, value;
    words >> word >> value;
    const auto bytes = [](const std::string& text) {
      return text == "-" || text.empty() ? std::nullopt : std::optional(base::Bytes{std::stoull(text)});
    };
    if (command == "notifications") {
      Say(std::to_string(notifications_));
      return true;
    }
    if (command == "moved") {
      Say(mover_ ? fmt::format("{} {}", mover_->moved_out, mover_->moved_in) : "0 0");
      return true;
    }
    if (command == "watch" || command == "patience") {
      (command == "watch" ? sharing_.watched : sharing_.room_patience) = base::Millis{std::stoll(word)};
      ledgers_.SetSharing(options_.job, sharing_);
    } else if (command == "pace" || command == "alert") {
      (command == "pace" ? sharing_.pace : sharing_.alert) = std::chrono::microseconds{std::stoll(word)};
      ledgers_.SetSharing(options_.job, sharing_);
    } else if (command == "denied") {
      sharing_.denied = base::Bytes{std::stoull(word)};
      ledgers_.SetSharing(options_.job, sharing_);
    } else if (command == "room") {
      ledgers_.SetRoom(options_.job, word, bytes(value));
    } else if (command == "offer") {
      ledgers_.OfferRoom(options_.job);
    } else if (command == "whole" && mover_) {
      mover_->whole = word == "1";
    } else if (command == "credit" && mover_) {
      mover_->credit = bytes(word);
    } else if (command == "grant" && mover_ && Find(word)) {
      mover_->Grant(*Find(word), base::Bytes{std::stoull(value)});
    } else {
      return false;
    }
    Say("ok");
    return true;
  }

  Options options_;
  Ledgers ledgers_;
  SharingSettings sharing_;
  std::uint64_t notifications_ = 0;
  std::optional<Server> server_;
  std::optional<TestMover> mover_;
  std::vector<LedgerRequest> joined_;
};

std::optional<Options> Parse(int count, char** words) {
  if (count < 2) return std::nullopt;
  Options options;
  options.socket = words[1];
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--nobody") {
      options.nobody = true;
    } else if (word == "--job" && i + 1 < count) {
      options.job.value = std::stoll(words[++i]);
    } else if (word == "--evictable" && i + 2 < count) {
      options.eviction.possible = true;
      const std::string budget = words[++i];
      if (budget != "-") options.eviction.host_budget = base::Bytes{std::stoull(budget)};
      options.eviction.patience = base::Millis{std::stoll(words[++i])};
    } else if (word == "--mover" && i + 1 < count) {
      options.mover = words[++i];
    } else if (word == "--adopt" && i + 2 < count) {
      const std::string pid = words[++i];
      options.adopt = "/proc/" + pid + "/fd/" + words[++i];
    } else if (word == "--gpu" && i + 3 < count) {
      GpuLimit limit;
      limit.uuid = words[++i];
      limit.hard = base::Bytes{std::stoull(words[++i])};
      limit.context = base::Bytes{std::stoull(words[++i])};
      options.gpus.push_back(limit);
    } else {
      return std::nullopt;
    }
  }
  return options;
}

}  // namespace
}  // namespace gpuman::ledger

int main(int count, char** words) {
  const auto options = gpuman::ledger::Parse(count, words);
  if (!options) return 2;
  const auto ran = gpuman::ledger::Test(*options).Run();
  if (!ran) std::cerr << ran.error().message << "\n";
  return ran ? 0 : 1;
}
