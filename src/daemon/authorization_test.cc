#include "daemon/authorization.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gpuman::daemon {
namespace {

constexpr gid_t kAdmins = 900, kSubmitters = 901;
const Access kSystem{{"wheel", kAdmins}, {"lab", kSubmitters}};
const Caller kRoot{0, 0, {0}, "root"};
const Caller kAdmin{1000, 1000, {1000, kAdmins}, "admin"};
const Caller kOwner{1001, 1001, {1001, kSubmitters}, "owner"};
const Caller kOther{1002, 1002, {1002, kSubmitters}, "other"};
const Caller kGuest{1003, 1003, {1003}, "guest"};

struct Row {
  Act act;
  std::vector<const Caller*> may;  // on a job of kOwner
};

TEST(Authorize, FollowsTheTable) {
  const std::vector<const Caller*> everybody{&kRoot, &kAdmin, &kOwner, &kOther, &kGuest};
  const std::vector<Row> table{
      {Act::kSee, everybody},
      {Act::kSubmit, {&kRoot, &kAdmin, &kOwner, &kOther}},
      {Act::kControl, {&kRoot, &kAdmin, &kOwner}},
      {Act::kReadLog, {&kRoot, &kAdmin, &kOwner}},
      {Act::kManage, {&kRoot, &kAdmin}},
  };
  for (const auto& row : table) {
    for (const auto* caller : everybody) {
      const bool expected = std::find(row.may.begin(), row.may.end(), caller) != row.may.end();
      const auto result = Authorize(kSystem, *caller, row.act, kOwner.uid);
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
  const Access access{kSystem.admin_group, kSystem.submit_group, kOwner.uid};
  EXPECT_TRUE(Authorize(access, kOwner, Act::kManage));
  EXPECT_TRUE(Authorize(access, kRoot, Act::kSubmit));
  EXPECT_FALSE(Authorize(access, kOther, Act::kSee));
  EXPECT_FALSE(Authorize(access, kAdmin, Act::kControl, kOwner.uid));
}

TEST(Authorize, WithoutTheGroupsOnlyRootActsAndOwnersKeepTheirJobs) {
  const Access access{{"wheel"}, {"lab"}};
  EXPECT_FALSE(Authorize(access, kOther, Act::kSubmit));
  EXPECT_FALSE(Authorize(access, kAdmin, Act::kManage));
  EXPECT_TRUE(Authorize(access, kOwner, Act::kControl, kOwner.uid));
  EXPECT_TRUE(Authorize(access, kRoot, Act::kManage));
}

TEST(Authorize, TheHintNamesTheConfiguredGroups) {
  const auto hint = [](const Access& access, Act act) {
    return Authorize(access, kGuest, act, kOwner.uid).error().hint;
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
