#include "queue/settings.h"

#include <fmt/format.h>

namespace gpuman::queue {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Millis;

constexpr Millis kMax = std::chrono::hours(24 * 366);
constexpr std::uint32_t kMaxRatio = 1000;

base::Result<> CheckSpan(std::string_view name, Millis value, Millis least) {
  if (value >= least && value <= kMax) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} must be from {} to {}", name, base::FormatDuration(least), base::FormatDuration(kMax)));
}

}  // namespace

base::Result<> Validate(const SchedulingSettings& settings) {
  GPUMAN_TRY(CheckSpan("queue.priority_step", settings.priority_step, Millis(0)));
  GPUMAN_TRY(CheckSpan("queue.fair_share", settings.fair_share, Millis(0)));
  GPUMAN_TRY(CheckSpan("queue.short_job", settings.short_job, Millis(0)));
  GPUMAN_TRY(CheckSpan("queue.short_scale", settings.short_scale, Millis(1)));
  GPUMAN_TRY(CheckSpan("queue.unlimited_as", settings.unlimited_as, Millis(1)));
  GPUMAN_TRY(CheckSpan("queue.half_life", settings.half_life, Millis(1000)));
  GPUMAN_TRY(CheckSpan("queue.presumed_time", settings.presumed, Millis(1000)));
  GPUMAN_TRY(CheckSpan("queue.patience", settings.patience, Millis(0)));
  GPUMAN_TRY(CheckSpan("queue.slack", settings.slack, Millis(0)));
  GPUMAN_TRY(CheckSpan("queue.preempt_wait", settings.preempt_wait, Millis(0)));
  GPUMAN_TRY(CheckSpan("queue.preempt_after", settings.preempt_after, Millis(0)));
  if (!(settings.memory_weight >= 0 && settings.memory_weight <= 1))
    return Fail(ErrorCode::kInvalidArgument, "queue.memory_weight must be from 0 to 1");
  if (settings.keep_ratio > kMaxRatio)
    return Fail(ErrorCode::kInvalidArgument, "queue.keep_ratio must be from 0 to 1000");
  if (settings.attempts < 0 || settings.attempts > 1000)
    return Fail(ErrorCode::kInvalidArgument, "queue.attempts must be from 0 to 1000");
  return {};
}

std::string_view ToString(GpuPickPolicy choice) { return base::WordOf(WordsOf(choice), choice); }

base::Result<GpuPickPolicy> ParseGpuPick(std::string_view word) {
  if (const auto choice = base::ValueOf(WordsOf(GpuPickPolicy{}), word)) return *choice;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no way to choose GPUs", word),
              "sequential, random or topology");
}

}  // namespace gpuman::queue
