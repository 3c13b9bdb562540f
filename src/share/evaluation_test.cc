// What the policy is worth, in the model of world.h: a bus of 55 GB/s each way at once.
#include "share/world.h"

namespace gpuman::share {
namespace {

constexpr double kBus = 55e9;

base::Bytes Part(base::Bytes capacity, double part) {
  return {static_cast<std::uint64_t>(static_cast<double>(capacity.count) * part)};
}

// How many times faster two of them are together than one after the other.
double Speedup(base::Bytes capacity, Span period, double busy, double memory = 0.9) {
  World world({}, {{"gpu", capacity}}, kBus);
  const Span burst = std::chrono::duration_cast<Span>(period * busy);
  const Span work = std::max(Span(60s), 30 * burst);
  const Program program{.memory = {{"gpu", Part(capacity, memory)}}, .burst = burst, .gap = period - burst, .work = work};
  const double alone = std::chrono::duration<double>(work).count() / busy;
  world.Start(program);
  world.Start(program);
  EXPECT_EQ(world.denied(), 0);
  return 2 * alone / std::chrono::duration<double>(world.RunToEnd(24h)).count();
}

TEST(Explore, Print) {
  for (const double gib : {16.0, 32.0, 64.0, 128.0})
    for (const double busy : {0.5, 0.9})
      for (const Span period : {Span(20s), Span(10s), Span(2s), Span(1s), Span(200ms), Span(100ms)})
        printf("%3.0f GiB busy %.1f period %6.1f s: %.3f\n", gib, busy, std::chrono::duration<double>(period).count(),
               Speedup(base::GiB(static_cast<std::uint64_t>(gib)), period, busy));
}

}  // namespace
}  // namespace gpuman::share
