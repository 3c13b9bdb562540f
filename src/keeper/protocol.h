// The messages between a keeper and its clients at STATE/jobs/ID/control: unix SOCK_SEQPACKET, one JSON
// object a packet, at most kMaxPacket bytes. docs/keeper.md has every field. Pure; parsers never throw.
//
// Each side sends a first message without waiting: the client says which versions it knows, the keeper tells
// its state. From then on the keeper sends every journal record as it is written, and one reply for each
// command, after its change is on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/units.h"
#include "keeper/journal.h"
#include "keeper/restart_policy.h"

namespace gpuman::keeper {

inline constexpr int kProtocolVersion = 1;
inline constexpr std::size_t kMaxPacket = 64 * 1024;

enum class KeeperPhase {
  kLaunching,  // between fork and execve
  kRunning,
  kStopping,   // an end was ordered; processes still live
  kLeftovers,  // the command has ended, some of its children have not
  kWaiting,    // for the time of the next restart
  kEnded,
};
constexpr auto WordsOf(KeeperPhase) {
  using enum KeeperPhase;
  return base::Words<KeeperPhase, 6>{{{kLaunching, "launching"},
                                      {kRunning, "running"},
                                      {kStopping, "stopping"},
                                      {kLeftovers, "leftovers"},
                                      {kWaiting, "waiting"},
                                      {kEnded, "ended"}}};
}

// The keeper's first packet.
struct KeeperHello {
  int version = kProtocolVersion;  // highest the keeper knows
  std::int64_t job_id = 0;
  base::ProcessId keeper;
  std::filesystem::path cgroup;
  KeeperPhase phase = KeeperPhase::kLaunching;
  RunNumber run = 0;
  std::optional<base::ProcessId> process;  // main process of the run
  std::uint64_t last_seq = 0;  // every record up to here is in the journal file; later ones will be sent
  bool shortens = false;       // the keeper shortens its journal when it learns which records are stored
  bool holds = false;          // the keeper knows HoldFile
};

struct Reply {
  std::uint64_t id = 0;  // of the command
  std::optional<base::Error> error;
};

using KeeperMessage = std::variant<KeeperHello, JournalRecord, Reply>;

// Announces why the run is about to end; send it just before the signal. The first announcement of a run
// stays. kConflict when `run` is not the current one; 0 means the current run. The keeper holds the reason in
// memory: if the keeper is killed as well, the end is recorded without a reason.
struct SetEndReason {
  RunNumber run = 0;
  EndReason reason;
  bool final = false;  // true: no restart after this end, whatever the policy says
};

// Sends the signal to the whole tree, and SIGKILL after the grace. No restart follows.
struct StopJob {
  EndReason reason{"stopped", ""};
  std::optional<int> signal;          // empty: the spec's
  std::optional<base::Millis> grace;  // empty: the spec's; 0: SIGKILL at once
};

// Does the same, then starts a new run at once. If this keeper ends before, a later keeper starts the run. A
// job that waits for its next restart starts at once. The new run does not count as a restart in a row.
struct RestartJob {
  EndReason reason{"restart", ""};
  std::optional<int> signal;
  std::optional<base::Millis> grace;
};

// The settings stay in force for later keepers of the job. An empty field changes nothing.
struct UpdateSettings {
  std::optional<RestartPolicy> restart;
  std::optional<base::Bytes> log_size_limit;
  std::optional<std::uint32_t> log_rotations;
  std::optional<base::Millis> stop_grace;
  std::optional<base::Millis> time_limit;  // also of the current run; 0: no limit any more
  friend bool operator==(const UpdateSettings&, const UpdateSettings&) = default;
};

// A signal to the current run. The keeper keeps it while the command is being started. kConflict: no process
// can get it.
struct SendSignalTo {
  int signal = 0;
  bool tree = false;  // false: the main process alone
  friend bool operator==(const SendSignalTo&, const SendSignalTo&) = default;
};

// Stops the clock of the time limit, or lets it go on. For the current run, also one that is just being
// started; kConflict: there is none.
struct SetClockPaused {
  bool paused = false;
};

// One line from gpuman in the job's log.
struct WriteLogNote {
  std::string text;
};

// Records up to here are in the daemon's store, so those that are not needed any more may leave the journal.
// Send it only to keepers whose KeeperHello says that they shorten it.
struct RecordsStored {
  std::uint64_t up_to = 0;
};

// The descriptor that comes with the packet, of a file in memory (held_file.h): the keeper keeps it open in
// place of the one before, and saves the file's bytes at the end of each run. Send it only to keepers whose
// KeeperHello says that they hold files. kInvalidArgument: no descriptor came, or it is of no such file.
struct HoldFile {};

using Command = std::variant<SetEndReason, StopJob, RestartJob, UpdateSettings, SendSignalTo, SetClockPaused,
                             WriteLogNote, RecordsStored, HoldFile>;

struct ClientHello {
  int min_version = kProtocolVersion;
  int max_version = kProtocolVersion;
};
struct NumberedCommand {
  std::uint64_t id = 0;
  Command command;
};
using ClientMessage = std::variant<ClientHello, NumberedCommand>;

std::string SerializeMessage(const KeeperMessage& message);
base::Result<KeeperMessage> ParseKeeperMessage(std::string_view packet);
std::string SerializeMessage(const ClientMessage& message);
base::Result<ClientMessage> ParseClientMessage(std::string_view packet);
// The id of a command that could not be parsed; 0 where there is none.
std::uint64_t MessageId(std::string_view packet);

// The settings alone, as JobSettingsChanged keeps them.
std::string SerializeSettings(const UpdateSettings& settings);
base::Result<UpdateSettings> ParseSettings(std::string_view json);

}  // namespace gpuman::keeper
