#include "mig/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mig {
namespace {

using testing::HasSubstr;

const Geometry kGeometry = {
    {"1g.10gb", 19, 1, 7, 14, base::MiB(9728), {}, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}},
    {"3g.40gb", 9, 3, 2, 42, base::MiB(40192), {}, {{0, 4}, {4, 4}}},
    {"7g.80gb", 0, 7, 1, 98, base::MiB(80640), {}, {{0, 8}}},
};

TEST(MigItem, HasACountAndASizeOfItsComputeInstance) {
  EXPECT_EQ(*ParseItem("3g.71gb"), (LayoutItem{"3g.71gb", 0, 1}));
  EXPECT_EQ(*ParseItem("2x1g.18gb+me"), (LayoutItem{"1g.18gb+me", 0, 2}));
  EXPECT_EQ(*ParseItem("1c.3g.71gb"), (LayoutItem{"3g.71gb", 1, 1}));
  EXPECT_EQ(*ParseItem("3x2c.7g.80gb"), (LayoutItem{"7g.80gb", 2, 3}));
  EXPECT_EQ(*ParseItem("1g.24gb+me.all"), (LayoutItem{"1g.24gb+me.all", 0, 1}));
  EXPECT_EQ(*ParseItem("1g.24gb-me"), (LayoutItem{"1g.24gb-me", 0, 1}));
}

TEST(MigItem, IsWrittenAsItIsRead) {
  for (const char* text : {"3g.71gb", "2x1g.18gb+me", "1c.3g.71gb", "3x2c.7g.80gb"})
    EXPECT_EQ(FormatItem(*ParseItem(text)), text);
}

TEST(MigItem, IsRefusedWhereItNamesNothing) {
  for (const char* text : {"", "x", "2x", "0x1g.10gb", "65x1g.10gb", "0c.1g.10gb", "1g", "one", "1g.10gb ",
                           "1G.10GB", "2 x 1g.10gb", "99999999999999999999x1g.10gb"}) {
    const auto item = ParseItem(text);
    ASSERT_FALSE(item) << text;
    EXPECT_EQ(item.error().code, base::ErrorCode::kInvalidArgument);
  }
}

TEST(MigResolve, GivesAWholeComputeInstanceEach) {
  const auto wanted = Resolve(kGeometry, *ParseItems(std::vector<std::string>{"3g.40gb", "2x1g.10gb"}));
  ASSERT_TRUE(wanted);
  EXPECT_EQ(*wanted, (std::vector<WantedInstance>{{1, {3}}, {0, {1}}, {0, {1}}}));
}

TEST(MigResolve, PutsComputeInstancesOfOneProfileTogether) {
  const auto of = [](std::vector<std::string> texts) { return *Resolve(kGeometry, *ParseItems(texts)); };
  EXPECT_EQ(of({"1c.3g.40gb", "2c.3g.40gb"}), (std::vector<WantedInstance>{{1, {2, 1}}}));
  EXPECT_EQ(of({"2x2c.3g.40gb"}), (std::vector<WantedInstance>{{1, {2}}, {1, {2}}}));
  EXPECT_EQ(of({"7x1c.7g.80gb"}), (std::vector<WantedInstance>{{2, {1, 1, 1, 1, 1, 1, 1}}}));
}

TEST(MigResolve, NamesTheProfilesThatThereAre) {
  const auto wanted = Resolve(kGeometry, std::vector<LayoutItem>{{"3g.41gb", 0, 1}});
  ASSERT_FALSE(wanted);
  EXPECT_EQ(wanted.error().code, base::ErrorCode::kNotFound);
  EXPECT_THAT(wanted.error().message, HasSubstr("1g.10gb, 3g.40gb, 7g.80gb"));
  EXPECT_EQ(wanted.error().hint, "did you mean 3g.40gb?");
}

TEST(MigResolve, RefusesMoreSlicesThanThereAre) {
  const auto wanted = Resolve(kGeometry, std::vector<LayoutItem>{{"3g.40gb", 4, 1}});
  ASSERT_FALSE(wanted);
  EXPECT_EQ(wanted.error().code, base::ErrorCode::kUnsatisfiable);
}

TEST(MigItems, OfWhatIsThereMakeItAgain) {
  const std::vector<GpuInstance> now = {
      {1, 1, {4, 4}, {{0, 3, ""}}}, {7, 0, {0, 1}, {{0, 1, ""}}}, {8, 0, {1, 1}, {{0, 1, ""}}}};
  const auto items = ItemsOf(kGeometry, now);
  EXPECT_EQ(items, (std::vector<LayoutItem>{{"3g.40gb", 0, 1}, {"1g.10gb", 0, 2}}));
  const std::vector<GpuInstance> shared = {{1, 1, {4, 4}, {{0, 2, ""}, {1, 1, ""}}}};
  EXPECT_EQ(ItemsOf(kGeometry, shared), (std::vector<LayoutItem>{{"3g.40gb", 1, 1}, {"3g.40gb", 2, 1}}));
}

}  // namespace
}  // namespace gpuman::mig
