#include "jobs/arrival.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gpuman::jobs {

std::string KeyOfArrival(const JobIdRange& jobs) {
  return fmt::format("{}{}-{}", kArrivals, jobs.first.value, jobs.last.value);
}

std::optional<JobIdRange> ArrivalOfKey(std::string_view key) {
  if (key.substr(0, kArrivals.size()) != kArrivals) return std::nullopt;
  JobIdRange jobs;
  const char* const end = key.data() + key.size();
  const auto first = std::from_chars(key.data() + kArrivals.size(), end, jobs.first.value);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, jobs.last.value);
  if (last.ec != std::errc{} || last.ptr != end || jobs.last < jobs.first) return std::nullopt;
  return jobs;
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
