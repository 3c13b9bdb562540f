// What a GPU's MPS control daemon tells of its servers and their clients. Values.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "mps/limits.h"

namespace gpuman::mps {

struct MpsClient {
  pid_t pid = 0;
  std::optional<uid_t> uid{};
  std::string name{};
  Limits limits{};  // from its environment; in MpsClientWatch: the limits that apply to the client
  bool limits_known = true;
  std::optional<base::JobId> job{};         // in MpsClientWatch: the client's job, as it was seen
  std::optional<std::string> name_space{};  // protocol 3
  friend bool operator==(const MpsClient&, const MpsClient&) = default;
};

// Of protocol 3.
struct NamespaceStatus {
  std::string name;
  Limits limits{};  // for new clients
  friend bool operator==(const NamespaceStatus&, const NamespaceStatus&) = default;
};

// An MPS server. A server serves one user. By protocol 2, a control daemon has servers of one user at a time,
// without a name.
struct MpsServerStatus {
  pid_t pid = 0;
  std::optional<uid_t> uid{};
  Limits limits{};  // for new clients; by protocol 3, for those of the default namespace
  std::vector<MpsClient> clients{};
  std::string name{};                         // protocol 3; else empty
  std::vector<NamespaceStatus> namespaces{};  // protocol 3; with `default`
  friend bool operator==(const MpsServerStatus&, const MpsServerStatus&) = default;
};

}  // namespace gpuman::mps
