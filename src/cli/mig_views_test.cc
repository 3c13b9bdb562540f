#include "cli/mig_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli {
namespace {

TEST(MigViews, NameTheJobOfAProcessThatIsInTheWay) {
  api::MigGpuChange gpu;
  gpu.steps = {{"disable", "MIG mode off", {}, {}}};
  gpu.in_the_way = {{4711, "python", false, 7, "train"},
                    {4712, "", false, 8, "serve"},
                    {4713, "Xorg", false, {}, {}},
                    {4714, "gpuman-mover", true, 7, "train"},
                    {4715, "", false, {}, {}}};
  EXPECT_THAT(
      RenderMigChanges({{gpu}}, /*is_plan=*/true),
      ::testing::HasSubstr("  in the way: 4711 (python, job 7 'train'), 4712 (job 8 'serve'), 4713 (Xorg), "
                           "4714 (gpuman's own, for jobs that are suspended or take turns), 4715\n"));
}

}  // namespace
}  // namespace gpuman::cli
