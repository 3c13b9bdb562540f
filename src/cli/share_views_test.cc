#include "cli/share_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Shown(const api::ShareJob& job) {
  api::ShareGpu gpu;
  gpu.number = "0";
  gpu.jobs = {job};
  return RenderShare({{}, {gpu}}, {});
}

TEST(ShareView, JobThatComesToRestShowsItsProgress) {
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

TEST(ShareView, SaysWhatPartOfTheTimeEachAskedForAndHad) {
  api::ShareGpu gpu;
  gpu.number = "0";
  gpu.contended = gpu.exclusive = gpu.by_share = gpu.handing_over = true;
  api::ShareJob job;
  job.tag = "train";
  job.compute = spec::ComputeShare{90, true};
  job.compute_part = 0.9;
  gpu.jobs = {job};
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), HasSubstr("GPU 0: turns by shares of the time"));
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), ContainsRegex(" 90%\\+ +n/a "));
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), Not(HasSubstr("moving"))) << "nothing has moved";
  gpu.jobs[0].compute_part = 0.6;  // others asked for too much
  gpu.jobs[0].compute_had = 0.583;
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), ContainsRegex(" 90%\\+ \\(60.0%\\) +58.3% "));
  gpu.jobs[0].compute.reset();
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), ContainsRegex(" 60.0% +58.3% "));
  gpu.jobs[0].waits_for = "share";
  gpu.jobs[0].waiting = base::Millis(120);
  EXPECT_THAT(RenderShare({{}, {gpu}}, {}), HasSubstr("has used its share (120ms)"));
}

TEST(ShareView, RequestedShareIsShownWithoutTurns) {
  api::ShareJob job;
  EXPECT_THAT(Shown(job), Not(HasSubstr("SHARE")));
  job.compute = spec::ComputeShare{30, true};
  EXPECT_THAT(Shown(job), ContainsRegex("SHARE +HAD"));
  EXPECT_THAT(Shown(job), ContainsRegex(" 30%\\+ +n/a ")) << "it runs freely, and nobody looks what it has";
}

TEST(ShareView, SaysWhoGoesFirstAndWhoseWorkIsNotCut) {
  api::ShareJob job;
  job.tag = "train";
  job.longest_unit = base::Millis(19);
  EXPECT_THAT(Shown(job), Not(HasSubstr("stayed on the GPU")));
  job.longest_unit = base::Millis(50);
  EXPECT_THAT(
      Shown(job),
      HasSubstr(
          "train: its work stayed on the GPU for 50ms after its turn; a kernel or a graph is not cut\n"));
  EXPECT_THAT(Shown(job), Not(HasSubstr("goes first")));
  job.latency = true;
  EXPECT_THAT(Shown(job), HasSubstr("train: its work goes first (--latency)\n"));
  job.waits_for = "latency";
  job.waiting = base::Millis(3);
  EXPECT_THAT(Shown(job), HasSubstr("held back (3ms)"));
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
