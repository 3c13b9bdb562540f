// Tests what a job on all GPUs costs jobs on one GPU in the model of test_world.h. docs/results.md has the
// figures.
#include "share/seconds.h"
#include "share/test_world.h"

namespace gpuman::share {
namespace {

constexpr double kBus = 20e9;

// On each of four GPUs two jobs that do not fit together compute half of the time, for a minute in all.
// Returns how many times faster that is than one after the other, with a gang on all of the GPUs or without.
double Speedup(Span period, const Program* gang) {
  std::map<std::string, base::Bytes> gpus;
  for (const char* gpu : {"a", "b", "c", "d"}) gpus[gpu] = base::GiB(16);
  World world({}, gpus, kBus);
  if (gang) world.Start(*gang);
  constexpr Span kWork = 60s;
  std::vector<TenantId> singles;
  for (const auto& [gpu, bytes] : gpus)
    for (int i = 0; i < 2; ++i)
      singles.push_back(world.Start(
          {.memory = {{gpu, base::GiB(12)}}, .burst = period / 2, .gap = period / 2, .work = kWork}));
  const base::MonoTime begin = world.now();
  const auto any_runs = [&] {
    return std::any_of(singles.begin(), singles.end(), [&](TenantId id) { return world.job(id).alive; });
  };
  while (any_runs() && world.now() < begin + 1h) world.RunFor(1s);
  return 4 * Seconds(kWork) / Seconds(world.now() - begin);
}

Program OnAll(base::Bytes bytes, Span burst, Span gap) {
  return {.memory = {{"a", bytes}, {"b", bytes}, {"c", bytes}, {"d", bytes}}, .burst = burst, .gap = gap};
}

// It makes one domain of the GPUs, whose hand-overs have nothing to do with each other.
TEST(ShareGangEvaluation, AGangThatFitsBesideTheOthersCostsThemNothing) {
  const Program gang = OnAll(base::MiB(100), 1h, Span{});
  for (const Span period : {Span(2s), Span(5s), Span(20s)}) {
    const double alone = Speedup(period, nullptr), beside = Speedup(period, &gang);
    RecordProperty("period_" + std::to_string(period / 1s) + "s",
                   std::to_string(alone) + " alone, " + std::to_string(beside) + " beside the gang");
    EXPECT_GE(beside, 0.98 * alone);
  }
}

}  // namespace
}  // namespace gpuman::share
