// The effect on a GPU of processes that belong to no job: whether the GPU can be handed out, and how much of
// its memory is left. Pure, but for the question whether a process still lives.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "guard/guard.h"

namespace gpuman::daemon {

// A process that fits all fields of the rule does not keep a GPU from being handed out. An absent field fits
// every process; a rule without process, user and name fits no process.
struct IgnoreRule {
  std::int64_t id = 0;
  std::optional<base::ProcessId> process{};
  std::optional<std::string> user{};
  std::optional<std::string> name{};
  std::optional<std::string> gpu{};  // UUID
  friend bool operator==(const IgnoreRule&, const IgnoreRule&) = default;
};

using NameOfUid = std::function<std::string(uid_t)>;

bool Ignores(const std::vector<IgnoreRule>& rules, const gpu::AttributedProcess& process,
             const std::string& gpu, const NameOfUid& name_of);

struct ForeignUse {
  base::Bytes memory{};    // of all such processes
  bool unmanaged = false;  // the GPU has such a process that is not ignored
  std::string holder{};    // that process: "pid 4711 (python, user ann)"
  friend bool operator==(const ForeignUse&, const ForeignUse&) = default;
};

// `protected_names`: names of display servers and similar processes. They run everywhere and do not keep a
// GPU from being handed out.
ForeignUse ForeignOn(const guard::GpuStatus& status, const std::vector<IgnoreRule>& rules,
                     const std::set<std::string>& protected_names, const NameOfUid& name_of,
                     const std::function<bool(const base::ProcessId&)>& lives);

// For how long processes on a GPU have not used it for work, as far as this daemon has seen since its first
// sample. Not thread-safe.
class ProcessIdleTracker {
 public:
  // The caller passes every sample. Samples that do not say which processes work change nothing.
  void Observe(const guard::GpuStatus& status);
  // nullopt: not known, for example because the driver does not tell.
  std::optional<base::Millis> IdleOf(const std::string& gpu, const base::ProcessId& process,
                                     base::MonoTime now) const;

 private:
  std::map<std::string, std::map<base::ProcessId, base::MonoTime>> worked_;  // by GPU: when last
};

// Whether a process that belongs to no job, and was idle for so long, is suspected of holding its GPU without
// use. Zero `patience`: no process ever is.
bool IsHoarding(const gpu::AttributedProcess& process, std::optional<base::Millis> idle,
                base::Millis patience, const std::set<std::string>& protected_names);

}  // namespace gpuman::daemon
