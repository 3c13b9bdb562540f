#include "cli/top/process_facts.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "base/file.h"
#include "base/parse_number.h"

namespace gpuman::cli::top {
namespace {

// The fields of /proc/PID/stat that follow the name, from field 3 on (proc(5)).
constexpr std::size_t kFirstField = 3, kUserTime = 14, kSystemTime = 15, kResident = 24;
constexpr std::size_t kLongestStat = 4096;

std::optional<std::uint64_t> FieldOf(std::string_view stat, std::size_t field) {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  for (std::size_t at = kFirstField; !stat.empty(); ++at) {
    stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
    if (at == field) return base::TakeNumber<std::uint64_t>(stat);
    stat.remove_prefix(std::min(stat.find(' '), stat.size()));
  }
  return std::nullopt;
}

base::Millis MillisOf(std::uint64_t ticks, const ProcStatUnits& units) {
  return base::Millis(static_cast<std::int64_t>(ticks) * 1000 / units.ticks_per_second);
}

base::Millis Uptime() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return base::Millis(static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000);
}

}  // namespace

std::optional<ProcessFacts> ParseFacts(std::string_view stat, base::Millis uptime,
                                       const ProcStatUnits& units) {
  const auto process = base::ParseStat(stat);
  const auto user = FieldOf(stat, kUserTime), system = FieldOf(stat, kSystemTime);
  const auto pages = FieldOf(stat, kResident);
  if (!process || !user || !system || !pages) return std::nullopt;
  ProcessFacts facts;
  facts.id = process->id;
  facts.used = MillisOf(*user + *system, units);
  facts.resident = base::Bytes{*pages * static_cast<std::uint64_t>(units.page_bytes)};
  facts.age = std::max(base::Millis(0), uptime - MillisOf(process->id.start_time, units));
  return facts;
}

std::optional<HostFacts> ParseHost(const std::string& load, const std::string& memory, unsigned processors) {
  const auto size = [&](const std::string& name) -> std::optional<base::Bytes> {
    const auto at = memory.find(name + ":");
    std::uint64_t kibibytes = 0;
    if (at == memory.npos ||
        std::sscanf(memory.c_str() + at + name.size() + 1, "%" SCNu64 " kB", &kibibytes) != 1)
      return std::nullopt;
    return base::KiB(kibibytes);
  };
  HostFacts host;
  const auto total = size("MemTotal"), available = size("MemAvailable");
  std::string_view text = load;
  const auto now = base::TakeNumber<double>(text);
  if (!total || !available || !now) return std::nullopt;
  host.load = *now;
  host.processors = processors;
  host.total = *total;
  host.used = *total - *available;
  return host;
}

std::optional<HostFacts> ReadHostFacts() {
  const auto load = base::ReadFile("/proc/loadavg"), memory = base::ReadFile("/proc/meminfo");
  if (!load || !memory) return std::nullopt;
  return ParseHost(*load, *memory, static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))));
}

std::map<int, ProcessFacts> ProcessReader::Read(const std::vector<int>& pids) {
  const ProcStatUnits units{::sysconf(_SC_CLK_TCK), ::sysconf(_SC_PAGESIZE)};
  const auto now = base::SystemClock().Mono();
  const auto uptime = Uptime();
  std::map<int, ProcessFacts> facts;
  for (const int pid : pids) {
    const auto stat = base::ReadFile(fmt::format("/proc/{}/stat", pid), kLongestStat);
    auto process = stat ? ParseFacts(*stat, uptime, units) : std::nullopt;
    if (!process) continue;
    const auto passed = std::chrono::duration<double>(now - before_at_).count();
    if (const auto known = before_.find(pid);
        known != before_.end() && known->second.id == process->id && passed > 0)
      process->cpu = std::chrono::duration<double>(process->used - known->second.used).count() / passed;
    facts.emplace(pid, *process);
  }
  before_ = facts;
  before_at_ = now;
  return facts;
}

}  // namespace gpuman::cli::top
