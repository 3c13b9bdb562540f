#include "jobs/kernel_kill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "base/kernel_log.h"
#include "base/parse_number.h"
#include "base/printable.h"
#include "base/text.h"

namespace gpuman::jobs {
namespace {

constexpr std::string_view kKilled = "Killed process ";
constexpr std::string_view kOfMachine = "Out of memory: ";
constexpr std::string_view kOfAsker = "Out of memory (oom_kill_allocating_task): ";
constexpr std::string_view kOfCgroup = "Memory cgroup out of memory: ";
constexpr std::string_view kAfterName = ") total-vm:";

// The keeper's times of a run: it learns of a start a moment late, when execve has closed the child's report.
constexpr base::Millis kKeeperLate{1'000};
constexpr base::Millis kMaxDrift{600'000};
// The kernel corrects CLOCK_MONOTONIC by 1/2000 at most (adjtimex(2)), and the clock of its log not at all.
constexpr std::int64_t kDrift = 2'000;

// "…, anon-rss:8kB, …" -> 8 KiB. nullopt: the text does not say, or no number that can be.
std::optional<base::Bytes> SizeAfter(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  const auto count = base::TakeNumber<std::uint64_t>(text);
  if (!count || *count > UINT64_MAX >> 10U || !text.starts_with("kB")) return std::nullopt;
  return base::KiB(*count);
}

// The three parts of what a process has in RAM; a part that is missing makes the sum unknown.
std::optional<base::Bytes> MemoryOf(std::string_view text) {
  base::Bytes sum;
  for (const auto* const part : {" anon-rss:", " file-rss:", " shmem-rss:"}) {
    const auto size = SizeAfter(text, part);
    if (!size) return std::nullopt;
    sum += *size;
  }
  if (sum.count == 0) return std::nullopt;  // the process had given it back already
  return sum;
}

// In the time `before` the end, with what the two clocks may differ by.
bool IsBefore(const KernelKill& kill, base::Millis ended, base::Millis before) {
  const auto at = std::chrono::duration_cast<base::Millis>(kill.since_boot);
  const base::Millis slack = kKeeperLate + std::min(ended / kDrift, kMaxDrift);
  return at >= ended - before - slack && at <= ended + slack;
}

bool HasComponent(const std::filesystem::path& path, const std::string& name) {
  return std::find(path.begin(), path.end(), name) != path.end();
}

}  // namespace

std::optional<KernelKill> ParseKernelKill(std::string_view line) {
  const auto record = base::ParseKernelLogLine(line);
  if (!record || !record->from_kernel) return std::nullopt;
  auto text = record->message;
  KernelKill kill{.since_boot = record->since_boot};
  kill.in_cgroup = base::DropPrefix(text, kOfCgroup);
  if (!kill.in_cgroup && !base::DropPrefix(text, kOfMachine)) base::DropPrefix(text, kOfAsker);
  if (!base::DropPrefix(text, kKilled)) return std::nullopt;
  const auto pid = base::TakeNumber<pid_t>(text);
  if (!pid || *pid <= 0 || !base::DropPrefix(text, " (")) return std::nullopt;
  kill.pid = *pid;
  // A name may hold anything, the end of a name too.
  const auto end = text.rfind(kAfterName);
  if (end == std::string_view::npos) return std::nullopt;
  kill.name = base::WithInstead(text.substr(0, end), [](auto, auto) { return std::string("?"); });
  kill.memory = MemoryOf(text.substr(end));
  return kill;
}

// The names in the line may hold commas; those of its numbers come last.
std::optional<KernelVictim> ParseKernelVictim(std::string_view line) {
  constexpr std::string_view kSummary = "oom-kill:", kCgroup = ",task_memcg=", kTask = ",task=",
                             kPid = ",pid=";
  const auto record = base::ParseKernelLogLine(line);
  if (!record || !record->from_kernel) return std::nullopt;
  auto text = record->message;
  if (!base::DropPrefix(text, kSummary)) return std::nullopt;
  const auto pid_at = text.rfind(kPid), cgroup_at = text.find(kCgroup);
  if (pid_at == std::string_view::npos || cgroup_at == std::string_view::npos || pid_at < cgroup_at)
    return std::nullopt;
  auto number = text.substr(pid_at + kPid.size());
  const auto pid = base::TakeNumber<pid_t>(number);
  const auto cgroup = text.substr(cgroup_at + kCgroup.size(), pid_at - cgroup_at - kCgroup.size());
  const auto end = cgroup.find(kTask);
  if (!pid || *pid <= 0 || end == std::string_view::npos) return std::nullopt;
  return KernelVictim{*pid, std::string(cgroup.substr(0, end))};
}

bool IsEndOf(const KernelKill& kill, pid_t pid, base::Millis ended, base::Millis lasted) {
  return kill.pid == pid && IsBefore(kill, ended, lasted);
}

bool IsWithinEndOf(const KernelKill& kill, std::string_view cgroup, base::Millis ended, base::Millis lasted) {
  constexpr base::Millis kFailsWithin{60'000};
  const std::string name = std::filesystem::path(cgroup).filename();
  return !name.empty() && HasComponent(kill.cgroup, name) &&
         IsBefore(kill, ended, std::min(lasted, kFailsWithin));
}

keeper::EndReason ReasonOf(const KernelKill& kill) {
  return {
      "host_memory",
      fmt::format("the kernel ended process {}{}{} because {} had no memory left; let it use less, or run "
                  "fewer jobs at once",
                  kill.pid, kill.name.empty() ? "" : fmt::format(" ({})", kill.name),
                  kill.memory ? fmt::format(", which had {},", base::FormatBytes(*kill.memory)) : "",
                  kill.in_cgroup ? "its cgroup" : "the machine")};
}

}  // namespace gpuman::jobs
