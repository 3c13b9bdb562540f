// By protocol 3: the server and the namespace of a job's programs, and what is to be changed at a control
// daemon so that those are there which jobs need. Pure; thread-safe.
//
//   control daemon of a GPU
//     server u1000           programs of user 1000
//       namespace default    clients that no job has made so: the GPU's limits
//       namespace job7       programs of job 7: the lower of the GPU's limits and the job's
//     server job9            programs of job 9, which has a share of the GPU's time
//       namespace job9
//
// The limits of a server hold for its default namespace alone, and a namespace without limits has none: so
// each namespace gets limits of its own. Only servers and namespaces with such names are ever deleted.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "mps/limits.h"
#include "mps/status.h"

namespace gpuman::mps {

// A job whose programs are clients on a GPU.
struct ClientJob {
  base::JobId id;
  uid_t uid = 0;
  Limits limits{};                  // that the job asks for
  std::optional<int> time_slice{};  // percent of the GPU's time beside other servers
  friend bool operator==(const ClientJob&, const ClientJob&) = default;
};

// What a GPU's control daemon is to have.
struct WantedOnGpu {
  Limits limits{};      // of each client
  base::Bytes whole{};  // the GPU's memory: a limit of as much is none; 0: not known
  std::vector<ClientJob> jobs{};
};

struct MpsNamespacePlacement {
  std::string server, name_space;
  uid_t uid = 0;
  Limits limits{};
  std::optional<int> time_slice{};
  friend bool operator==(const MpsNamespacePlacement&, const MpsNamespacePlacement&) = default;
};

// `of_gpu`: the limits of each client there.
MpsNamespacePlacement PlacementOf(const ClientJob& job, const Limits& of_gpu);
// nullopt: gpuman did not give it this name for a job.
std::optional<base::JobId> JobOf(std::string_view name);

struct MpsChange {
  enum class Kind {
    kDeleteNamespace,
    kDeleteServer,
    kCreateServer,  // with its time slice
    kLimitServer,
    kCreateNamespace,
    kLimitNamespace,
  };
  Kind kind = Kind::kLimitServer;
  std::string server, name_space{};
  uid_t uid = 0;                    // of a new server
  Limits limits{};                  // each of both that is to be set
  std::optional<int> time_slice{};  // of a new server
  friend bool operator==(const MpsChange&, const MpsChange&) = default;
};

// In the order in which they are to be made. None: all is as it should be.
std::vector<MpsChange> ChangesFor(const std::vector<MpsServerStatus>& there, const WantedOnGpu& wanted);

// Whether this user's programs find the namespace. Its limits are not compared: the control program may write
// them in another way than they were told.
bool IsThere(const std::vector<MpsServerStatus>& there, const MpsNamespacePlacement& placement);

}  // namespace gpuman::mps
