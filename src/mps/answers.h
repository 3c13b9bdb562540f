// Parses the answers of nvidia-cuda-mps-control. Pure; thread-safe.
//
// By protocol 2 the program has no error status: it refuses with a sentence in place of a value. The parsers
// return kConflict with that sentence. By protocol 3 it prints tables, of which the parsers want those
// columns that gpuman needs; they are found by the table's head, or without one by their documented order.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/run_command.h"
#include "base/units.h"
#include "mps/limits.h"

namespace gpuman::mps {

// get_server_list, get_client_list: one process id on each line; an empty answer means no process.
base::Result<std::vector<pid_t>> ParsePids(std::string_view answer);

// get_active_thread_percentage and get_default_active_thread_percentage: "50.0".
base::Result<double> ParsePercentage(std::string_view answer);

// get_device_pinned_mem_limit and get_default_device_pinned_mem_limit: "8192M", "8G"; "0" or an empty answer:
// no limit.
base::Result<std::optional<base::Bytes>> ParseMemoryLimit(std::string_view answer);

// For commands whose answer is empty or the value that was set. Any other answer is a refusal.
base::Result<> ParseDone(std::string_view answer);

// --- Protocol 3 ---

// `-p 3 -h`: 3 where the help names the modules of protocol 3, else 2.
int ParseProtocol(std::string_view help);
// `server set help`: whether it names a part of the GPU's time.
bool NamesTimeSlices(std::string_view help);

inline constexpr std::string_view kDefaultNamespace = "default";

struct ServerRow {
  std::string name;
  std::optional<uid_t> uid{};
  pid_t pid = 0;       // 0: it is not running yet
  std::string status;  // in lower case
  friend bool operator==(const ServerRow&, const ServerRow&) = default;
};
struct NamespaceRow {
  std::string name, server;
  Limits limits{};
  friend bool operator==(const NamespaceRow&, const NamespaceRow&) = default;
};
struct ClientRow {
  pid_t pid = 0;
  std::string server;
  std::optional<std::string> name_space{};
  friend bool operator==(const ClientRow&, const ClientRow&) = default;
};
// `server list`, `namespace list`, `client list`, each with --format=csv.
base::Result<std::vector<ServerRow>> ParseServers(std::string_view answer);
base::Result<std::vector<NamespaceRow>> ParseNamespaces(std::string_view answer);
base::Result<std::vector<ClientRow>> ParseClients(std::string_view answer);

// An answer for people: its first line, limited in length; where there is none, the exit status.
std::string Shown(const base::ProgramResult& answer);

// --- Variables of clients ---

// The limit of device 0 in CUDA_MPS_PINNED_DEVICE_MEM_LIMIT ("0=8G,1=512M"); nullopt: there is none, or the
// text is not valid.
std::optional<base::Bytes> MemoryVariable(std::string_view text);
// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; nullopt: the text is not a valid number.
std::optional<double> ThreadsVariable(std::string_view text);

}  // namespace gpuman::mps
