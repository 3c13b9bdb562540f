// What history keeps of a GPU or a job: figures over a stretch of time. Values.
//
// A row stands for the recorded seconds of one bucket of time: a second, ten seconds, five minutes. An
// unknown value is unknown and never 0, so each figure knows over how many seconds it was known. Rows add up
// exactly: a row of five minutes says the same, whether it was made of seconds or of rows of ten seconds.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace gpuman::history {

// In KiB, in percent of the time, in tenths of a watt, in degrees Celsius.
enum class Metric { kMemory, kUtilization, kPower, kTemperature };
inline constexpr std::size_t kMetrics = 4;

// Of a job. A GPU is always kRunning.
enum class JobActivityState { kRunning, kWaiting, kSuspended };

// Seconds since 1970, rounded down.
inline std::int64_t SecondOf(base::WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// What is known at one moment.
struct HistorySample {
  std::array<std::optional<std::int64_t>, kMetrics> values{};
  JobActivityState state = JobActivityState::kRunning;

  std::optional<std::int64_t>& operator[](Metric metric) { return values[static_cast<std::size_t>(metric)]; }
  friend bool operator==(const HistorySample&, const HistorySample&) = default;
};

// One figure over `count` seconds in which it was known; count 0: unknown, and the rest is 0.
struct Aggregate {
  std::uint32_t count = 0;
  std::int64_t sum = 0, min = 0, max = 0;
  friend bool operator==(const Aggregate&, const Aggregate&) = default;
};

struct Row {
  std::int64_t at = 0;                       // the beginning of the bucket, in seconds since 1970
  std::uint32_t seconds = 0;                 // seconds that were recorded
  std::uint32_t waiting = 0, suspended = 0;  // of these; in the others the job ran
  std::array<Aggregate, kMetrics> figures{};

  Aggregate& operator[](Metric metric) { return figures[static_cast<std::size_t>(metric)]; }
  const Aggregate& operator[](Metric metric) const { return figures[static_cast<std::size_t>(metric)]; }
  friend bool operator==(const Row&, const Row&) = default;
};

// Bounds of what a row may hold; they keep all sums far from the ends of their types.
inline constexpr std::int64_t kMaxValue = std::int64_t{1} << 36;  // 64 TiB in KiB
inline constexpr std::uint32_t kMaxSeconds = 4096;
inline constexpr std::int64_t kLastTime = std::int64_t{1} << 36;  // after the year 4000

// The row of one second. Values beyond the bounds are unknown.
Row RowOf(std::int64_t second, const HistorySample& reading);
// A later reading of the same second: its values replace those of before, which stay in min and max.
void Replace(Row& row, const HistorySample& reading);
// Adds the seconds of `other`; `into` keeps its time.
void AddTo(Row& into, const Row& other);
// Whether a row can have been recorded: its counts and figures agree with each other and with the bounds.
bool IsSound(const Row& row);

enum class SubjectKind { kGpu, kJob };
inline constexpr std::size_t kKinds = 2;

// A series of rows: of a GPU by its UUID, of a job by its id.
struct Key {
  SubjectKind kind = SubjectKind::kGpu;
  std::string name;
  friend auto operator<=>(const Key&, const Key&) = default;
};

// The lengths of buckets, in seconds. A row of each is made of rows of the one before.
inline constexpr std::array<std::int64_t, 3> kSteps{1, 10, 300};
inline constexpr std::size_t kTiers = kSteps.size();

}  // namespace gpuman::history
