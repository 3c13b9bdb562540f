// What the history of a machine takes on disk, and how long an answer takes: 90 days of eight GPUs and of
// twenty jobs a day, made up second by second, through the same code as in the daemon (src/history).
//
// Usage: history_size [DAYS] [FOLDER]
//
// The data are made up to compress badly: while a job runs, memory moves between steps now and then,
// utilization, power and temperature change with every second; nights are as busy as days.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/test_temp_dir.h"
#include "history/query.h"
#include "history/store.h"

namespace {

using namespace gpuman::history;  // NOLINT(google-build-using-namespace)

constexpr int kGpus = 8, kJobsPerDay = 20;
constexpr std::int64_t kDay = 86'400, kFlush = 60;
constexpr std::int64_t kMiB = 1024;  // in KiB

struct Gpu {
  Key key;
  std::int64_t memory = 500 * kMiB, temperature = 35;
  Key job{};
  std::int64_t job_ends = 0;
};

double MillisSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class Machine {
 public:
  Machine() {
    for (int i = 0; i < kGpus; ++i)
      gpus_.push_back({{SubjectKind::kGpu, fmt::format("GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b{}", i)}});
  }

  void Second(Recorder& recorder, std::int64_t at) {
    if (Below(kDay) < kJobsPerDay) StartJob(at);
    for (Gpu& gpu : gpus_) {
      if (!gpu.job.name.empty() && at >= gpu.job_ends) {
        recorder.End(gpu.job);
        gpu.job = {};
        gpu.memory = 500 * kMiB;
      }
      Read(recorder, gpu, at);
    }
  }
  int jobs() const { return jobs_; }

 private:
  std::int64_t Below(std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
  }
  void StartJob(std::int64_t at) {
    const auto free =
        std::find_if(gpus_.begin(), gpus_.end(), [](const Gpu& one) { return one.job.name.empty(); });
    if (free == gpus_.end()) return;
    Gpu& gpu = *free;
    gpu.job = {SubjectKind::kJob, std::to_string(++jobs_)};
    gpu.job_ends = at + 60 + Below(12 * 3600);
    gpu.memory = (1 + Below(70)) * 1024 * kMiB;
  }
  void Read(Recorder& recorder, Gpu& gpu, std::int64_t at) {
    const bool busy = !gpu.job.name.empty();
    if (busy && Below(20) == 0) gpu.memory += (Below(129) - 64) * 2 * kMiB;
    gpu.memory = std::max(gpu.memory, 100 * kMiB);
    gpu.temperature += Below(3) - 1 + (gpu.temperature < (busy ? 60 : 35) ? 1 : -1) * (Below(4) == 0 ? 1 : 0);
    HistorySample reading;
    reading[Metric::kMemory] = gpu.memory;
    reading[Metric::kUtilization] = busy ? 60 + Below(41) : 0;
    reading[Metric::kPower] = (busy ? 4500 : 750) + Below(busy ? 2000 : 20);
    reading[Metric::kTemperature] = gpu.temperature;
    recorder.Add(gpu.key, at, reading);
    if (busy) recorder.Add(gpu.job, at, reading);
  }

  std::mt19937_64 random_{1};
  std::vector<Gpu> gpus_;
  int jobs_ = 0;
};

void Answer(const Store& store, const Recorder& recorder, const Key& key, std::int64_t since,
            std::int64_t until, const char* what) {
  std::vector<double> times;
  std::size_t rows = 0, filled = 0;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Plan plan = PlanOf({since, until, 300}, store.Oldest(key.kind));
    Buckets buckets(plan);
    rows = 0;
    Store::Read(store.ViewOf(key.kind, plan.tier), key.name, plan.since, plan.until, [&](const Row& row) {
      buckets.Add(row);
      ++rows;
    });
    for (const Row& row : recorder.RowsOf(key, plan.tier)) buckets.Add(row);
    times.push_back(MillisSince(start));
    filled = 0;
    for (const Row& row : buckets.rows()) filled += row.seconds > 0 ? 1 : 0;
  }
  std::sort(times.begin(), times.end());
  fmt::print("{}: {} points of {} rows, median {:.1f} ms, longest {:.1f} ms\n", what, filled, rows,
             times[times.size() / 2], times.back());
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t days = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 90;
  const gpuman::base::TempDir temporary;
  const std::filesystem::path folder = argc > 2 ? argv[2] : temporary.path() / "history";
  auto store =
      Store::Open(folder, gpuman::base::MiB(64), [](const std::string& text) { fmt::print("{}\n", text); });
  if (!store) return fmt::print("{}\n", store.error().message), 1;
  Machine machine;
  Recorder recorder(2);
  const std::int64_t begin = 1'700'000'100, end = begin + days * kDay;
  std::uint64_t batches = 0;
  double writing = 0, longest = 0;
  std::size_t pending = 0;
  for (std::int64_t at = begin; at < end; ++at) {
    machine.Second(recorder, at);
    if (at % kFlush != 0) continue;
    const auto start = std::chrono::steady_clock::now();
    const auto batch = recorder.Take(at);
    if (const auto written = (*store)->Write(batch, ++batches); !written)
      return fmt::print("{}\n", written.error().message), 1;
    const double took = MillisSince(start);
    writing += took;
    longest = std::max(longest, took);
    for (const auto& chunk : batch) pending = std::max(pending, chunk.rows.size());
  }
  fmt::print("{} days, {} GPUs, {} jobs: {:.1f} MiB of 64 MiB\n", days, kGpus, machine.jobs(),
             static_cast<double>((*store)->size().count) / (1 << 20));
  for (const auto kind : {SubjectKind::kGpu, SubjectKind::kJob}) {
    for (std::size_t tier = 0; tier < kTiers; ++tier) {
      std::uint64_t size = 0;
      const auto view = (*store)->ViewOf(kind, tier);
      for (const auto& file : view.files) size += file.size;
      const auto oldest = (*store)->Oldest(kind)[tier].value_or(end);
      fmt::print("  {} {:>3} s: {:.2f} MiB in {} files, back to {:.1f} days\n",
                 kind == SubjectKind::kGpu ? "GPUs" : "jobs", kSteps[tier],
                 static_cast<double>(size) / (1 << 20), view.files.size(),
                 static_cast<double>(end - oldest) / kDay);
    }
  }
  fmt::print("writing: {} batches, mean {:.2f} ms, longest {:.1f} ms\n", batches,
             writing / static_cast<double>(batches), longest);
  const Key gpu{SubjectKind::kGpu, "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b3"};
  Answer(**store, recorder, gpu, end - days * kDay, end, "300 points of a GPU over all days");
  Answer(**store, recorder, gpu, end - 7200, end, "300 points of a GPU over two hours");
  Answer(**store, recorder, gpu, end - 300, end, "300 points of a GPU over five minutes");
  Answer(**store, recorder, {SubjectKind::kJob, std::to_string(machine.jobs() / 2)}, end - days * kDay, end,
         "300 points of a job, looked for over all days");
  const auto start = std::chrono::steady_clock::now();
  store->reset();
  auto again = Store::Open(folder, gpuman::base::MiB(64), [](const std::string&) {});
  const double opening = MillisSince(start);
  Recorder replayed(2);
  if (again) (*again)->Replay(replayed, [](const Key& key) { return key.kind == SubjectKind::kGpu; });
  fmt::print("opening the folder {:.0f} ms, with the replay of GPUs {:.0f} ms\n", opening,
             MillisSince(start));
  return 0;
}
