#include "daemon/shims/slot_state.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using ledger::EvictableGpu;

TEST(SlotState, AHomeThatTheProcessNamesIsTakenAsItIs) {
  ledger::SlotStatus one;
  one.homes = {{.uuid = "b"}, {.uuid = "a", .evicted = {4096}}};
  one.held = {{"c", {1}}};
  EXPECT_EQ(HomesOf(one, {"c"}), one.homes);
}

TEST(SlotState, AFirstHomeWithoutANameIsWhereTheProcessHasMost) {
  ledger::SlotStatus one;
  one.homes = {{.evictable = {4096}}};
  one.held = {{"a", {1}}, {"b", {2}}};
  EXPECT_EQ(HomesOf(one, {"c"}), (std::vector<EvictableGpu>{{.uuid = "b", .evictable = {4096}}}));
}

TEST(SlotState, AProcessThatHasNothingYetWillBeOnTheFirstGpuOfItsJob) {
  ledger::SlotStatus one;
  one.homes = {{.wants = {4096}}};
  EXPECT_EQ(HomesOf(one, {"c", "d"}), (std::vector<EvictableGpu>{{.uuid = "c", .wants = {4096}}}));
  EXPECT_EQ(HomesOf(one, {}), std::vector<EvictableGpu>{});
}

}  // namespace
}  // namespace gpuman::daemon
