#include "daemon/history/views.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace gpuman::daemon {
namespace {

using history::Aggregate;
using history::Metric;
using history::Row;

double Rounded(double value) { return std::round(value * 100) / 100; }
// For parts of the time, of which the smallest is 5 minutes.
double RoundedPart(double value) { return std::round(value * 10'000) / 10'000; }

double MeanOf(const Aggregate& figures) {
  return static_cast<double>(figures.sum) / static_cast<double>(figures.count);
}

void Show(const Aggregate& figures, api::HistoryBytes& shown) {
  const bool known = figures.count > 0;
  const auto bytes = [&](double kib) {
    return known ? std::optional(std::llround(kib) * std::int64_t{1024}) : std::nullopt;
  };
  shown.mean.emplace_back(bytes(known ? MeanOf(figures) : 0));
  shown.min.emplace_back(bytes(static_cast<double>(figures.min)));
  shown.max.emplace_back(bytes(static_cast<double>(figures.max)));
}

// `unit`: of the figures, in the unit that is shown.
void Show(const Aggregate& figures, double unit, api::HistoryFigures& shown) {
  const bool known = figures.count > 0;
  const auto number = [&](double value) {
    return known ? std::optional(Rounded(value * unit)) : std::nullopt;
  };
  shown.mean.push_back(number(known ? MeanOf(figures) : 0));
  shown.min.push_back(number(static_cast<double>(figures.min)));
  shown.max.push_back(number(static_cast<double>(figures.max)));
}

void Show(const Row& row, api::HistoryStateFractions& shown) {
  const auto part = [&](std::uint32_t seconds) {
    return row.seconds > 0 ? std::optional(RoundedPart(static_cast<double>(seconds) / row.seconds))
                           : std::nullopt;
  };
  shown.running.push_back(part(row.seconds - row.waiting - row.suspended));
  shown.waiting.push_back(part(row.waiting));
  shown.suspended.push_back(part(row.suspended));
}

base::WallTime TimeOf(std::int64_t second) { return base::WallTime(std::chrono::seconds(second)); }

}  // namespace

api::HistoryView HistoryViewOf(const history::Plan& plan, const std::vector<Row>& rows,
                               history::SubjectKind kind) {
  api::HistoryView view;
  view.since = TimeOf(plan.since);
  view.until = TimeOf(plan.until);
  view.step = std::chrono::seconds(plan.step);
  view.resolution = std::chrono::seconds(history::kSteps[plan.tier]);
  if (kind == history::SubjectKind::kJob) view.states.emplace();
  for (const Row& row : rows) {
    view.recorded.push_back(
        RoundedPart(std::min(1.0, static_cast<double>(row.seconds) / static_cast<double>(plan.step))));
    Show(row[Metric::kMemory], view.memory);
    Show(row[Metric::kUtilization], 1, view.utilization);
    Show(row[Metric::kPower], 0.1, view.power_w);
    Show(row[Metric::kTemperature], 1, view.temperature_c);
    if (view.states) Show(row, *view.states);
  }
  return view;
}

}  // namespace gpuman::daemon
