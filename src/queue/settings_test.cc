#include "queue/settings.h"

#include <gtest/gtest.h>

namespace gpuman::queue {
namespace {

using base::Millis;

TEST(QueueSettings, BoundsAreHeldAndNamed) {
  EXPECT_TRUE(Validate(SchedulingSettings{}));
  SchedulingSettings settings;
  settings.half_life = Millis(0);
  EXPECT_NE(Validate(settings).error().message.find("queue.half_life"), std::string::npos);
  settings = {};
  settings.memory_weight = 1.5;
  EXPECT_NE(Validate(settings).error().message.find("queue.memory_weight"), std::string::npos);
}

TEST(QueueSettings, ChoicesHaveWords) {
  for (const GpuPickPolicy choice :
       {GpuPickPolicy::kSequential, GpuPickPolicy::kRandom, GpuPickPolicy::kTopology})
    EXPECT_EQ(ParseGpuPick(ToString(choice)).value(), choice);
  EXPECT_FALSE(ParseGpuPick("best"));
}

}  // namespace
}  // namespace gpuman::queue
