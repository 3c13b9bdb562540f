// The cost of a scheduling pass: many waiting jobs, 1,000 running ones, 64 GPUs.
//
// BM_Pass/N/KINDS: N waiting jobs with KINDS different requests; the running jobs leave one GPU free, so the
// pass starts some. BM_PassFull: no GPU is free. BM_Forecast: estimates for all jobs. The bar: BM_Pass/100000
// within 10 ms, and no faster growth than n log n.
#include <benchmark/benchmark.h>

#include <random>

#include "queue/dependencies.h"
#include "queue/explain.h"
#include "queue/forecast.h"
#include "queue/pass.h"
#include "queue/snapshot_updater.h"

namespace gpuman::queue {
namespace {

constexpr std::size_t kGpus = 64;
constexpr int kRunning = 1000;
constexpr WallTime kNow{std::chrono::hours(24 * 365 * 56)};

std::string Uuid(std::size_t gpu) { return "GPU-" + std::to_string(gpu); }

std::vector<Gpu> Gpus() {
  std::vector<Gpu> gpus;
  for (std::size_t i = 0; i < kGpus; ++i)
    gpus.push_back(
        {.index = static_cast<unsigned>(i), .uuid = Uuid(i), .model = "H200", .memory = base::GiB(140)});
  return gpus;
}

// Shared jobs fill all GPUs but `free`, about 16 on each.
SnapshotUpdater MakeBook(std::int64_t waiting, int kinds, std::size_t free) {
  SnapshotUpdater updater;
  updater.SetGpus(Gpus());
  updater.SetHost({base::GiB(4096), 512});
  for (int user = 0; user < 10; ++user)
    updater.SetQuota(AccountKind::kUser, "user" + std::to_string(user), {.running = 400, .gpus = 400});
  std::mt19937_64 random(7);
  std::int64_t id = 0;
  for (int i = 0; i < kRunning; ++i) {
    JobSpec request;
    request.gpus.count = 1;
    request.share = true;
    request.memory_on_each = base::GiB(8);
    request.time_limit = std::chrono::minutes(10 + random() % 1000);
    request.preemptible = i % 10 == 0;
    updater.PutRunning({.id = {++id},
                        .user = "user" + std::to_string(i % 10),
                        .suspendable = true,
                        .movable = true,
                        .gpus = {Uuid(static_cast<std::size_t>(i) % (kGpus - free))},
                        .ran_before = std::chrono::minutes(5)},
                       request);
  }
  for (std::int64_t i = 0; i < waiting; ++i) {
    JobSpec request;
    const int kind = static_cast<int>(random() % static_cast<std::uint64_t>(kinds));
    request.gpus.count = 1 + kind % 8;
    request.time_limit = std::chrono::minutes(10 + kind);
    request.priority = static_cast<int>(random() % 256);
    request.project = "project" + std::to_string(random() % 5);
    if (kind % 3 == 0) {
      request.share = true;
      request.memory_on_each = base::GiB(20);
    }
    updater.PutWaiting({.id = {++id},
                        .user = "user" + std::to_string(random() % 50),
                        .since = kNow - Millis(static_cast<std::int64_t>(random() % 1'000'000'000))},
                       request);
  }
  return updater;
}

void RunPass(benchmark::State& state, std::size_t free) {
  SnapshotUpdater updater = MakeBook(state.range(0), static_cast<int>(state.range(1)), free);
  const Snapshot& snapshot = updater.View(base::MonoTime{});
  std::size_t starts = 0;
  for (auto _ : state) {
    const Plan plan = Pass(snapshot, kNow);
    starts = plan.starts.size();
    benchmark::DoNotOptimize(plan.order.data());
  }
  state.counters["starts"] = static_cast<double>(starts);
  state.SetComplexityN(state.range(0));
}

void BM_Pass(benchmark::State& state) { RunPass(state, 4); }
void BM_PassFull(benchmark::State& state) { RunPass(state, 0); }

void BM_Forecast(benchmark::State& state) {
  SnapshotUpdater updater = MakeBook(state.range(0), 100, 4);
  const Snapshot& snapshot = updater.View(base::MonoTime{});
  const Plan plan = Pass(snapshot, kNow);
  for (auto _ : state) benchmark::DoNotOptimize(Forecast(snapshot, plan, kNow, SIZE_MAX).starts.data());
}

void BM_Explain(benchmark::State& state) {
  SnapshotUpdater updater = MakeBook(state.range(0), 100, 4);
  const Snapshot& snapshot = updater.View(base::MonoTime{});
  const Plan plan = Pass(snapshot, kNow);
  const Dependents nobody;
  for (auto _ : state) {
    const Explainer explainer(snapshot, plan, kNow, nobody);
    for (const Index each : plan.order) benchmark::DoNotOptimize(explainer.Of(each).data());
  }
}

BENCHMARK(BM_Pass)
    ->Args({1000, 100})
    ->Args({10'000, 100})
    ->Args({100'000, 100})
    ->Args({1'000'000, 100})
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oNLogN);
BENCHMARK(BM_Pass)->Name("BM_PassManyKinds")->Args({100'000, 100'000})->Unit(benchmark::kMillisecond);
BENCHMARK(BM_PassFull)->Args({100'000, 100})->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Forecast)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Explain)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpuman::queue

BENCHMARK_MAIN();
