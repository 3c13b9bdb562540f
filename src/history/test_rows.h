// Rows and readings for the tests of history.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <vector>

#include "history/point.h"

namespace gpuman::history {

inline const Key kGpu{SubjectKind::kGpu, "GPU-1"};
inline const Key kJob{SubjectKind::kJob, "7"};

inline HistorySample Of(std::int64_t memory, JobActivityState state = JobActivityState::kRunning) {
  HistorySample reading;
  reading[Metric::kMemory] = memory;
  reading.state = state;
  return reading;
}

inline Row MemoryRow(std::int64_t at, std::int64_t memory) { return RowOf(at, Of(memory)); }

inline rc::Gen<std::int64_t> AnyValue() {
  return rc::gen::oneOf(rc::gen::inRange<std::int64_t>(-100, 100),
                        rc::gen::inRange<std::int64_t>(-kMaxValue, kMaxValue + 1));
}

inline Aggregate AnyFigures(std::uint32_t seconds) {
  Aggregate figures;
  figures.count = *rc::gen::inRange<std::uint32_t>(0, seconds + 1);
  if (figures.count == 0) return figures;
  const std::int64_t a = *AnyValue(), b = *AnyValue();
  figures.min = std::min(a, b);
  figures.max = std::max(a, b);
  const auto count = static_cast<std::int64_t>(figures.count);
  figures.sum = *rc::gen::inRange(figures.min * count, figures.max * count + 1);
  return figures;
}

inline Row AnyRow(std::int64_t at) {
  Row row;
  row.at = at;
  row.seconds = *rc::gen::inRange<std::uint32_t>(1, kMaxSeconds + 1);
  row.waiting = *rc::gen::inRange<std::uint32_t>(0, row.seconds + 1);
  row.suspended = *rc::gen::inRange<std::uint32_t>(0, row.seconds - row.waiting + 1);
  for (auto& figures : row.figures) figures = AnyFigures(row.seconds);
  return row;
}

// Sound rows whose times rise, with repetitions of the row before as they come at rest.
inline std::vector<Row> AnyRows() {
  std::vector<Row> rows;
  std::int64_t at = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 33);
  const auto count = *rc::gen::inRange(1, 60);
  for (int i = 0; i < count; ++i) {
    if (!rows.empty() && *rc::gen::arbitrary<bool>()) {
      rows.push_back(rows.back());
      rows.back().at = at;
    } else {
      rows.push_back(AnyRow(at));
    }
    at += *rc::gen::oneOf(rc::gen::just<std::int64_t>(10), rc::gen::inRange<std::int64_t>(1, 1'000'000));
  }
  return rows;
}

}  // namespace gpuman::history
