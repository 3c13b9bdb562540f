#include "cli/queue/choose_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

namespace gpuman::cli::queue {
namespace {

struct Candidate {
  std::size_t sharing = 0;  // jobs
  base::Bytes free{};
  std::size_t place = 0;
  std::set<std::int64_t> jobs{};
};

bool IsClosed(const api::QueueGpu& gpu) {
  constexpr std::array<std::string_view, 3> kClosed = {"drained", "restricted", "split"};
  return gpu.mig || std::find(kClosed.begin(), kClosed.end(), gpu.state) != kClosed.end();
}

bool Shares(const std::vector<api::JobView>& jobs, std::int64_t id) {
  const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const auto& each) { return each.id == id; });
  return job != jobs.end() && job->options.share;
}

}  // namespace

base::Result<std::vector<std::string>> ChooseGpusForTurns(const api::QueueInfo& info,
                                                          const std::vector<api::JobView>& jobs,
                                                          std::size_t count) {
  std::vector<Candidate> candidates;
  for (std::size_t place = 0; place < info.gpus.size(); ++place) {
    const api::QueueGpu& gpu = info.gpus[place];
    if (IsClosed(gpu)) continue;
    Candidate candidate{
        0, gpu.memory ? gpu.memory->free : base::Bytes{}, place, {gpu.jobs.begin(), gpu.jobs.end()}};
    for (const std::int64_t id : gpu.jobs) candidate.sharing += Shares(jobs, id) ? 1U : 0U;
    if (candidate.sharing == gpu.jobs.size()) candidates.push_back(candidate);
  }
  if (candidates.size() < count)
    return base::Fail(
        base::ErrorCode::kConflict,
        fmt::format("--gpus: of {} GPUs {} can be shared by turns now, and it asks for {}", info.gpus.size(),
                    candidates.size(), count),
        "`gpuman info` shows who has which; with --memory it waits in the queue for a place of that size");
  std::set<std::size_t> places;
  std::set<std::int64_t> beside;
  while (places.size() < count) {
    const auto best = std::min_element(candidates.begin(), candidates.end(),
                                       [&beside](const Candidate& a, const Candidate& b) {
                                         return std::tuple(a.sharing, a.jobs != beside, b.free, a.place) <
                                                std::tuple(b.sharing, b.jobs != beside, a.free, b.place);
                                       });
    places.insert(best->place);
    beside = best->jobs;
    candidates.erase(best);
  }
  std::vector<std::string> uuids;
  uuids.reserve(places.size());
  for (const std::size_t place : places) uuids.push_back(info.gpus[place].uuid);
  return uuids;
}

}  // namespace gpuman::cli::queue
