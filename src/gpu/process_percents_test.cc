#include "gpu/process_percents.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpuman::gpu {
namespace {

using Percents = std::map<pid_t, unsigned>;
using Samples = std::vector<driver::NvmlBusyProcess>;

base::MonoTime At(double seconds) {
  return base::MonoTime(std::chrono::milliseconds(static_cast<int>(seconds * 1000)));
}

const std::vector<GpuProcess> kProcesses{{1, {}}, {2, {}}};

TEST(ProcessPercents, AreUnknownUntilTheSecondLook) {
  ProcessPercents percents;
  EXPECT_EQ(percents.Of(kProcesses), std::nullopt);
  percents.Take(At(1), Samples{{1, 500, 90}});
  EXPECT_EQ(percents.Of(kProcesses), std::nullopt) << "the driver's samples of some seconds before";
  percents.Take(At(2), Samples{{1, 1500, 40}});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 40}, {2, 0}}));
  percents.Take(At(20), Samples{{1, 16'000, 70}});
  EXPECT_EQ(percents.Of(kProcesses), std::nullopt) << "nobody looked for long";
  percents.Take(At(21), {});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 0}, {2, 0}}));
}

TEST(ProcessPercents, AreThoseOfTheNewestSample) {
  ProcessPercents percents;
  percents.Take(At(1), {});
  percents.Take(At(2), Samples{{1, 100, 10}, {2, 100, 60}, {1, 300, 30}, {1, 200, 20}});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 30}, {2, 60}}));
}

TEST(ProcessPercents, HoldWhileTheDriverHasNoNewSample) {
  ProcessPercents percents;
  percents.Take(At(1), {});
  percents.Take(At(2), Samples{{1, 100, 50}});
  percents.Take(At(2.1), {});
  percents.Take(At(3), {});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 50}, {2, 0}}));
  percents.Take(At(4), {});
  percents.Take(At(5), {});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 0}, {2, 0}}));
}

TEST(ProcessPercents, LeaveOutSamplesThatCannotBe) {
  ProcessPercents percents;
  percents.Take(At(1), {});
  percents.Take(At(2), Samples{{1, 100, 50}, {1, 200, 4'000'000}});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 50}, {2, 0}}));
}

TEST(ProcessPercents, HaveNothingOfAProcessThatIsNotThere) {
  ProcessPercents percents;
  percents.Take(At(1), {});
  percents.Take(At(2), Samples{{1, 100, 50}, {7, 100, 50}});
  EXPECT_EQ(percents.Of(kProcesses), (Percents{{1, 50}, {2, 0}}));
}

}  // namespace
}  // namespace gpuman::gpu
