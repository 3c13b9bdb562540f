#include "daemon/core/authorization.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gpuman::daemon {
namespace {

constexpr gid_t kAdmins = 900, kSubmitters = 901;
const Access kSystem{{"wheel", kAdmins}, {"lab", kSubmitters}};
const Caller kRootCaller{0, 0, {0}, "root"};
const Caller kAdmin{1000, 1000, {1000, kAdmins}, "admin"};
const Caller kOwnerCaller{1001, 1001, {1001, kSubmitters}, "owner"};
const Caller kOther{1002, 1002, {1002, kSubmitters}, "other"};
const Caller kGuest{1003, 1003, {1003}, "guest"};

struct AccessRow {
  Act act;
  std::vector<const Caller*> may;  // on a job of kOwnerCaller
};

TEST(Authorize, FollowsTheTable) {
  const std::vector<const Caller*> everybody{&kRootCaller, &kAdmin, &kOwnerCaller, &kOther, &kGuest};
  const std::vector<AccessRow> table{
      {Act::kSee, everybody},
      {Act::kSubmit, {&kRootCaller, &kAdmin, &kOwnerCaller, &kOther}},
      {Act::kControl, {&kRootCaller, &kAdmin, &kOwnerCaller}},
      {Act::kReadLog, {&kRootCaller, &kAdmin, &kOwnerCaller}},
      {Act::kManage, {&kRootCaller, &kAdmin}},
  };
  for (const auto& row : table) {
    for (const auto* caller : everybody) {
      const bool expected = std::find(row.may.begin(), row.may.end(), caller) != row.may.end();
      const auto result = Authorize(kSystem, *caller, row.act, kOwnerCaller.uid);
      EXPECT_EQ(result.has_value(), expected) << caller->user << " act " << static_cast<int>(row.act);
      if (!result) {
        EXPECT_EQ(result.error().code, base::ErrorCode::kPermissionDenied);
        EXPECT_NE(result.error().message.find(caller->user), std::string::npos);
        EXPECT_FALSE(result.error().hint.empty());
      }
    }
  }
}

TEST(Authorize, AUserDaemonServesItsUserAndRootAlone) {
  const Access access{kSystem.admin_group, kSystem.submit_group, kOwnerCaller.uid};
  EXPECT_TRUE(Authorize(access, kOwnerCaller, Act::kManage));
  EXPECT_TRUE(Authorize(access, kRootCaller, Act::kSubmit));
  EXPECT_FALSE(Authorize(access, kOther, Act::kSee));
  EXPECT_FALSE(Authorize(access, kAdmin, Act::kControl, kOwnerCaller.uid));
}

TEST(Authorize, WithoutTheGroupsOnlyRootActsAndOwnersKeepTheirJobs) {
  const Access access{{"wheel"}, {"lab"}};
  EXPECT_FALSE(Authorize(access, kOther, Act::kSubmit));
  EXPECT_FALSE(Authorize(access, kAdmin, Act::kManage));
  EXPECT_TRUE(Authorize(access, kOwnerCaller, Act::kControl, kOwnerCaller.uid));
  EXPECT_TRUE(Authorize(access, kRootCaller, Act::kManage));
}

TEST(Authorize, TheHintNamesTheConfiguredGroups) {
  const auto hint = [](const Access& access, Act act) {
    return Authorize(access, kGuest, act, kOwnerCaller.uid).error().hint;
  };
  EXPECT_EQ(hint(kSystem, Act::kSubmit), "an administrator adds users with: usermod -aG lab guest");
  EXPECT_EQ(hint(kSystem, Act::kManage), "root or a member of the group wheel may");
  EXPECT_EQ(hint(kSystem, Act::kControl), "its owner, root or a member of the group wheel may");
  EXPECT_NE(hint({{"wheel"}, {"lab"}}, Act::kSubmit).find("no group 'lab'"), std::string::npos);
}

TEST(CallerOf, KnowsTheUserAndItsGroups) {
  const auto caller = CallerOf({0, 0, 1});
  EXPECT_EQ(caller.user, "root");
  EXPECT_FALSE(caller.groups.empty());
  EXPECT_EQ(CallerOf({4000000, 7, 1}).user, "4000000");
}

}  // namespace
}  // namespace gpuman::daemon
