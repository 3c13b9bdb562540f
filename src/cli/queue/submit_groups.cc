#include "cli/queue/submit_groups.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace gpuman::cli::queue {
namespace {

constexpr std::string_view kMain = "Options";
constexpr std::string_view kGpus = "GPUs";
constexpr std::string_view kWhen = "When it starts";
constexpr std::string_view kMany = "Many jobs";
constexpr std::string_view kHost = "Machine, files and environment";
constexpr std::string_view kEnd = "When it ends";
constexpr std::string_view kOther = "Slurm and accounting";

constexpr std::array<std::pair<std::string_view, std::string_view>, 49> kOrder{{
    {kMain, "--gpus"},
    {kMain, "--memory"},
    {kMain, "--time"},
    {kMain, "--name"},
    {kMain, "--wait"},
    {kMain, "--depends"},
    {kMain, "--array"},
    {kMain, "--output"},
    {kMain, "--command"},
    {kMain, "--dry-run"},
    {kGpus, "--gpu"},
    {kGpus, "--gpu-model"},
    {kGpus, "--gpu-free"},
    {kGpus, "--soft"},
    {kGpus, "--share"},
    {kGpus, "--weight"},
    {kGpus, "--oversubscribe"},
    {kGpus, "--mps"},
    {kGpus, "--mps-threads"},
    {kGpus, "--device-profile"},
    {kGpus, "--visible-devices"},
    {kGpus, "--no-preload"},
    {kWhen, "--priority"},
    {kWhen, "--begin"},
    {kWhen, "--depends-any"},
    {kWhen, "--no-auto-cancel"},
    {kWhen, "--hold"},
    {kWhen, "--preemptible"},
    {kMany, "--param"},
    {kMany, "--param-file"},
    {kMany, "--name-template"},
    {kMany, "--max-concurrent"},
    {kMany, "--group"},
    {kMany, "--jobs"},
    {kHost, "--cpus"},
    {kHost, "--host-memory"},
    {kHost, "--directory"},
    {kHost, "--export"},
    {kHost, "--conda-env"},
    {kHost, "--input"},
    {kHost, "--error"},
    {kEnd, "--retries"},
    {kEnd, "--retry-delay"},
    {kEnd, "--retry-on"},
    {kEnd, "--warn"},
    {kEnd, "--grace"},
    {kEnd, "--notify-mail"},
    {kEnd, "--notify-url"},
    {kEnd, "--notify-on"},
}};

std::size_t PlaceOf(const Option& option) {
  const auto name = NameOf(option);
  const auto* const it =
      std::find_if(kOrder.begin(), kOrder.end(), [&](const auto& place) { return place.second == name; });
  return static_cast<std::size_t>(it - kOrder.begin());
}

}  // namespace

void GroupForHelp(Options& table) {
  std::stable_sort(table.begin(), table.end(),
                   [](const Option& a, const Option& b) { return PlaceOf(a) < PlaceOf(b); });
  for (auto& option : table) {
    const auto place = PlaceOf(option);
    option.group = place < kOrder.size() ? kOrder[place].first : kOther;
  }
}

}  // namespace gpuman::cli::queue
