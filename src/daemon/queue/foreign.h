// What processes that no job has do to a GPU: whether it can be handed out, and how much of it is left. Pure,
// but for the question whether a process still lives.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "guard/guard.h"

namespace gpuman::daemon {

// A process that all that is said here fits does not keep a GPU from being handed out. What is absent fits
// every process; a rule that says nothing fits none.
struct IgnoreRule {
  std::int64_t id = 0;
  std::optional<base::ProcessId> process{};
  std::optional<std::string> user{};
  std::optional<std::string> name{};
  std::optional<std::string> gpu{};  // UUID
  friend bool operator==(const IgnoreRule&, const IgnoreRule&) = default;
};

using NameOfUid = std::function<std::string(uid_t)>;

bool Ignores(const std::vector<IgnoreRule>& rules, const gpu::OwnedProcess& process, const std::string& gpu,
             const NameOfUid& name_of);

struct ForeignUse {
  base::Bytes memory{};    // of all of them
  bool unmanaged = false;  // one that is not ignored is there
  std::string holder{};    // who: "pid 4711 (python, user ann)"
  friend bool operator==(const ForeignUse&, const ForeignUse&) = default;
};

// `protected_names`: display servers and the like, which are everywhere and in nobody's way.
ForeignUse ForeignOn(const guard::GpuStatus& status, const std::vector<IgnoreRule>& rules,
                     const std::set<std::string>& protected_names, const NameOfUid& name_of,
                     const std::function<bool(const base::ProcessId&)>& lives);

// For how long processes on GPUs have not had them working, as far as this daemon has seen: from its first
// look on. Not thread-safe.
class IdleWatch {
 public:
  // To be told of every sample; those that say nothing of it change nothing.
  void Observe(const guard::GpuStatus& status);
  // nullopt: not known, as where the driver does not tell.
  std::optional<base::Millis> IdleOf(const std::string& gpu, const base::ProcessId& process,
                                     base::MonoTime now) const;

 private:
  std::map<std::string, std::map<base::ProcessId, base::MonoTime>> worked_;  // by GPU: when last
};

// Whether a process that no job has, idle for so long, is suspected of holding its GPU for nothing. Zero
// `patience`: nobody ever is.
bool IsHoarding(const gpu::OwnedProcess& process, std::optional<base::Millis> idle, base::Millis patience,
                const std::set<std::string>& protected_names);

}  // namespace gpuman::daemon
