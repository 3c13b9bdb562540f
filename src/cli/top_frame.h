// What `gpuman top` prints without a terminal and with --once. Pure: the same view and width give the same
// lines.
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

// The order of jobs and processes: the largest memory or utilization of the GPU first, the oldest first, or
// by user, job or pid. Only the screen has the orders by the use of the host; they have no words.
enum class TopOrder { kMemory, kUtilization, kAge, kUser, kJob, kPid, kCpu, kHostMemory };

inline constexpr const char* kTopOrderValue = "memory|utilization|age|user|job|pid";
std::string_view ToString(TopOrder order);
std::optional<TopOrder> TopOrderFromString(std::string_view word);

struct TopView {
  api::StatusView status;
  base::WallTime now{};
  TopOrder order = TopOrder::kMemory;
};

struct TopLine {
  std::string text;  // printable, no wider than the columns
  Color color = Color::kNone;
  friend bool operator==(const TopLine&, const TopLine&) = default;
};

// Title, GPUs, waiting jobs, processes. In a narrow window the GPUs' bars are left out first, then power,
// temperature and utilization; their health is never cut, and their faults are wrapped.
std::vector<TopLine> TopLines(const TopView& view, std::size_t columns);

}  // namespace gpuman::cli
