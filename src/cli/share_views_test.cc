#include "cli/share_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Shown(const api::ShareJob& job) {
  api::ShareGpu gpu;
  gpu.number = "0";
  gpu.jobs = {job};
  return RenderShare({{}, {gpu}}, {});
}

TEST(ShareView, SaysHowFarAJobIsThatComesToRest) {
  api::ShareJob job;
  job.id = 7;
  job.tag = "train";
  job.gate = "closing";
  job.resting = api::ShareResting{8, 7, 40, 1200};
  job.detail = "is not at rest after 1.2s: process 812 works on GPU 1";
  EXPECT_THAT(Shown(job), HasSubstr("closing (7 of 8 at rest)"));
  EXPECT_THAT(Shown(job), HasSubstr("train: is not at rest after 1.2s: process 812 works on GPU 1\n"));
  job.suspended = true;  // on its way out
  EXPECT_THAT(Shown(job), HasSubstr("closing (7 of 8 at rest)"));
}

TEST(ShareView, CountsNothingOfAJobOfOneProcessOnOneGpu) {
  api::ShareJob job;
  job.gate = "closing";
  job.resting = api::ShareResting{1, 0, 0, 3};
  EXPECT_THAT(Shown(job), HasSubstr("closing"));
  EXPECT_THAT(Shown(job), Not(HasSubstr("at rest")));
}

TEST(ShareView, TellsWhatWasCopiedWhereThatIsLessThanWhatMoved) {
  api::ShareGpu gpu;
  gpu.number = "0";
  gpu.hand_overs = 14;
  gpu.moved_out = gpu.copied_out = base::GiB(198);
  gpu.moved_in = base::GiB(197);
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), HasSubstr("14 hand-overs, 198GiB out, 197GiB back,"));
  gpu.copied_out = base::GiB(3);
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}),
              HasSubstr("14 hand-overs, 198GiB out, 3GiB of it copied, 197GiB back,"));
}

}  // namespace
}  // namespace gpuman::cli
