#include "jobs/arrival.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"

namespace gpuman::jobs {

std::string KeyOfArrival(const JobIdRange& jobs) {
  return fmt::format("{}{}-{}", kArrivals, jobs.first.value, jobs.last.value);
}

std::optional<JobIdRange> ArrivalOfKey(std::string_view key) {
  if (key.substr(0, kArrivals.size()) != kArrivals) return std::nullopt;
  key.remove_prefix(kArrivals.size());
  const auto first = base::TakeNumber<std::int64_t>(key);
  if (!first || !key.starts_with('-')) return std::nullopt;
  const auto last = base::ParseNumber<std::int64_t>(key.substr(1));
  if (!last || *last < *first) return std::nullopt;
  return JobIdRange{{*first}, {*last}};
}

JobId ArrivalRemover::Begin() const { return {std::max(jobs_.first.value, end_.value - together_)}; }

ArrivalRemover::Step ArrivalRemover::Next() const {
  Step step;
  for (JobId id = Begin(); id < end_; ++id.value) step.erase.push_back(id);
  if (Begin() == jobs_.first) step.unset = KeyOfArrival(jobs_);
  return step;
}

void ArrivalRemover::Take(const base::Result<>& written) {
  if (written) {
    end_ = Begin();
    went_ = true;
    done_ = end_ == jobs_.first;
    return;
  }
  failed_ = written.error().code != base::ErrorCode::kExhausted || (!went_ && together_ == 1);
  if (!went_) together_ = std::max<std::int64_t>(together_ / 2, 1);
  went_ = false;
}

}  // namespace gpuman::jobs
