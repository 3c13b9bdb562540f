// The lines that `gpuman top` shows. Pure: the same view and size give the same lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "cli/text.h"

namespace gpuman::cli {

// The order of processes: the largest memory first, or by user, job or pid.
enum class TopOrder { kMemory, kUser, kJob, kPid };

inline constexpr const char* kTopOrderValue = "memory|user|job|pid";
std::string_view ToString(TopOrder order);
std::optional<TopOrder> TopOrderFromString(std::string_view word);

struct TopView {
  api::StatusView status;
  base::WallTime now{};
  TopOrder order = TopOrder::kMemory;
  std::size_t skip = 0;  // processes that are scrolled past; a larger number shows the last page
  std::string problem;   // why the data is old, as a sentence; empty: the data is not old
  bool help = false;     // show the help on keys instead
};

struct TopLine {
  std::string text;  // printable, no wider than the columns of TopSize
  Color color = Color::kNone;
  friend bool operator==(const TopLine&, const TopLine&) = default;
};

struct TopSize {
  std::size_t columns = 80;
  std::optional<std::size_t> rows{};  // nullopt: as many as needed
};

// The largest useful `skip`: the last page shows the last process.
std::size_t LastPage(const TopView& view, const TopSize& size);

// Title, GPUs, waiting jobs, processes; in a window, where rows are given, the keys on the last row. With too
// few rows, the list of processes shrinks first, then the rest. In a narrow window the GPUs' bars are left
// out first, then power, temperature and utilization; their health is never cut, and their faults are
// wrapped.
std::vector<TopLine> TopLines(const TopView& view, const TopSize& size);

}  // namespace gpuman::cli
