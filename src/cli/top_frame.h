// What `gpuman top` shows, as lines. Pure: the same view and size give the same lines.
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

// Of processes: the largest memory first, or by user, job or pid.
enum class TopOrder { kMemory, kUser, kJob, kPid };

inline constexpr const char* kTopOrderValue = "memory|user|job|pid";
std::string_view ToString(TopOrder order);
std::optional<TopOrder> TopOrderFromString(std::string_view word);

struct TopView {
  api::StatusView status;
  base::WallTime now{};
  TopOrder order = TopOrder::kMemory;
  std::size_t skip = 0;  // processes that are scrolled past; more than there are: the last page
  std::string problem;   // why this is not of now, as a sentence; empty: it is
  bool help = false;     // the keys are explained in place of all this
};

struct TopLine {
  std::string text;  // printable, no wider than was asked for
  Color color = Color::kNone;
  friend bool operator==(const TopLine&, const TopLine&) = default;
};

struct TopSize {
  std::size_t columns = 80;
  std::optional<std::size_t> rows{};  // nullopt: as many as it takes
};

// The most that can be scrolled past: the last page shows the last process.
std::size_t LastPage(const TopView& view, const TopSize& size);

// Title, GPUs, what waits, processes; in a window, whose rows are given, the keys on its last row. With fewer
// rows than that takes, fewer processes, and then less of the rest. In a narrow window the GPUs' bars go
// first, then power, temperature and utilization; their health is never cut, what is wrong with them is
// wrapped.
std::vector<TopLine> TopLines(const TopView& view, const TopSize& size);

}  // namespace gpuman::cli
