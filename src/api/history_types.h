// Figures of a GPU or a job over time, as the API shows them. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::api {

// Query parameters of GET /v1/history, and their bounds.
inline constexpr std::int64_t kHistoryPoints = 300;
inline constexpr std::int64_t kMinHistoryPoints = 2, kMaxHistoryPoints = 2000;

// One number for each bucket; null: unknown, or a gap. A mean is over the seconds in which the figure was
// known.
struct HistoryBytes {
  std::vector<std::optional<std::int64_t>> mean, min, max;
};
struct HistoryFigures {
  std::vector<std::optional<double>> mean, min, max;
};

// Parts of the recorded time, 0 to 1; null: a gap.
struct HistoryStateFractions {
  std::vector<std::optional<double>> running, waiting, suspended;
};

// GET /v1/history: bucket i begins at since + i * step and ends at the beginning of the next.
struct HistoryView {
  std::optional<std::string> gpu;         // UUID; null: it is of a job
  std::optional<std::string> gpu_number;  // "0", "0:1"; null also where the driver does not list it any more
  std::optional<std::int64_t> job;
  std::optional<std::string> tag;  // null also of a job that was forgotten
  base::WallTime since{}, until{};
  base::Millis step{}, resolution{};        // of a bucket, and of what it was made of
  std::optional<base::Bytes> memory_limit;  // of the job; of a GPU, its size; null: none is known
  std::vector<double> recorded;             // the part of the bucket that was recorded, 0 to 1
  HistoryBytes memory;
  HistoryFigures utilization;  // percent
  HistoryFigures power_w, temperature_c;
  std::optional<HistoryStateFractions> states;  // null: it is of a GPU
};

}  // namespace gpuman::api
