#include "metrics/self.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/parse_number.h"

namespace gpuman::metrics {
namespace {

constexpr std::size_t kStatBytes = 4096;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double Now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Field 22 of /proc/PID/stat counts ticks since boot. The name before it may contain anything; the last
// parenthesis ends it.
std::optional<double> StartedSeconds() {
  const auto stat = base::ReadFile("/proc/self/stat", kStatBytes);
  if (!stat || stat->rfind(')') == std::string::npos) return std::nullopt;
  std::istringstream fields(stat->substr(stat->rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const auto ticks = base::ParseNumber<double>(field);
  if (!fields || !ticks) return std::nullopt;
  return Now(CLOCK_REALTIME) - Now(CLOCK_BOOTTIME) + *ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Since Linux 6.2 the directory's size is the number of open files; before, they must be counted.
std::optional<std::size_t> OpenFiles() {
  struct stat folder {};
  if (::stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
    return static_cast<std::size_t>(folder.st_size);
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  std::size_t count = 0;
  for (const std::filesystem::directory_iterator end; !error && files != end; files.increment(error)) ++count;
  return error ? std::nullopt : std::optional(count);
}

}  // namespace

SelfCost ReadSelfCost() {
  SelfCost cost;
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  cost.cpu_seconds = Seconds(used.ru_utime) + Seconds(used.ru_stime);
  if (const auto statm = base::ReadFile("/proc/self/statm", kStatBytes)) {
    std::istringstream pages(*statm);
    std::uint64_t virtual_pages = 0, resident_pages = 0;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (pages >> virtual_pages >> resident_pages) {
      cost.virtual_size = base::Bytes{virtual_pages * page};
      cost.resident = base::Bytes{resident_pages * page};
    }
  }
  cost.open_files = OpenFiles();
  // The process keeps the first result: the start time does not change, but a later calculation would differ,
  // since the clocks drift.
  static const auto started = StartedSeconds();
  cost.started_seconds = started;
  return cost;
}

}  // namespace gpuman::metrics
