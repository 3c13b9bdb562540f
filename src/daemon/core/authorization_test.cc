#include "daemon/core/authorization.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gpuman::daemon {
namespace {

constexpr gid_t kAdmins = 900, kSubmitters = 901;
const AccessSettings kSystem{{"wheel", kAdmins}, {"lab", kSubmitters}};
const Caller kRootCaller{0, 0, {0}, "root"};
const Caller kAdmin{1000, 1000, {1000, kAdmins}, "admin"};
const Caller kOwnerCaller{1001, 1001, {1001, kSubmitters}, "owner"};
const Caller kOther{1002, 1002, {1002, kSubmitters}, "other"};
const Caller kStranger{1003, 1003, {1003}, "stranger"};

struct AccessRow {
  api::Right right;
  std::vector<const Caller*> may;  // on a job of kOwnerCaller
};

TEST(Authorize, FollowsTheTable) {
  const std::vector<const Caller*> everybody{&kRootCaller, &kAdmin, &kOwnerCaller, &kOther, &kStranger};
  const std::vector<AccessRow> table{
      {api::Right::kAnybody, everybody},
      {api::Right::kSee, everybody},
      {api::Right::kByRequest, everybody},
      {api::Right::kSubmit, {&kRootCaller, &kAdmin, &kOwnerCaller, &kOther}},
      {api::Right::kControlJob, {&kRootCaller, &kAdmin, &kOwnerCaller}},
      {api::Right::kReadLog, {&kRootCaller, &kAdmin, &kOwnerCaller}},
      {api::Right::kManage, {&kRootCaller, &kAdmin}},
  };
  for (const auto& row : table) {
    for (const auto* caller : everybody) {
      const bool expected = std::find(row.may.begin(), row.may.end(), caller) != row.may.end();
      const auto result = Authorize(kSystem, *caller, row.right, kOwnerCaller.uid);
      EXPECT_EQ(result.has_value(), expected) << caller->user << " right " << static_cast<int>(row.right);
      if (!result) {
        EXPECT_EQ(result.error().code, base::ErrorCode::kPermissionDenied);
        EXPECT_NE(result.error().message.find(caller->user), std::string::npos);
        EXPECT_FALSE(result.error().hint.empty());
      }
    }
  }
}

TEST(Authorize, OverTcpNobodyMayDoMoreThanSee) {
  Caller caller{65534, 65534, {}, "", true};
  for (const auto right : {api::Right::kAnybody, api::Right::kSee})
    EXPECT_TRUE(Authorize(kSystem, caller, right));
  for (const uid_t user : {uid_t{65534}, uid_t{0}, kOwnerCaller.uid}) {
    caller.uid = user;
    for (const auto right : {api::Right::kByRequest, api::Right::kSubmit, api::Right::kControlJob,
                             api::Right::kReadLog, api::Right::kManage}) {
      const auto result = Authorize(kSystem, caller, right, user);
      ASSERT_FALSE(result) << user << " right " << static_cast<int>(right);
      EXPECT_EQ(result.error().code, base::ErrorCode::kPermissionDenied);
    }
  }
  const AccessSettings of_one_user{kSystem.admin_group, kSystem.submit_group, caller.uid};
  EXPECT_FALSE(Authorize(of_one_user, caller, api::Right::kSee));
  EXPECT_TRUE(Authorize(of_one_user, caller, api::Right::kAnybody));
}

TEST(Authorize, AUserDaemonServesItsUserAndRootAlone) {
  const AccessSettings access{kSystem.admin_group, kSystem.submit_group, kOwnerCaller.uid};
  EXPECT_TRUE(Authorize(access, kOwnerCaller, api::Right::kManage));
  EXPECT_TRUE(Authorize(access, kRootCaller, api::Right::kSubmit));
  EXPECT_FALSE(Authorize(access, kOther, api::Right::kSee));
  EXPECT_FALSE(Authorize(access, kOther, api::Right::kByRequest));
  EXPECT_TRUE(Authorize(access, kOther, api::Right::kAnybody));
  EXPECT_FALSE(Authorize(access, kAdmin, api::Right::kControlJob, kOwnerCaller.uid));
}

TEST(Authorize, WithoutTheGroupsOnlyRootActsAndOwnersKeepTheirJobs) {
  const AccessSettings access{{"wheel"}, {"lab"}};
  EXPECT_FALSE(Authorize(access, kOther, api::Right::kSubmit));
  EXPECT_FALSE(Authorize(access, kAdmin, api::Right::kManage));
  EXPECT_TRUE(Authorize(access, kOwnerCaller, api::Right::kControlJob, kOwnerCaller.uid));
  EXPECT_TRUE(Authorize(access, kRootCaller, api::Right::kManage));
}

TEST(Authorize, TheHintNamesTheConfiguredGroups) {
  const auto hint = [](const AccessSettings& access, api::Right right) {
    return Authorize(access, kStranger, right, kOwnerCaller.uid).error().hint;
  };
  EXPECT_EQ(hint(kSystem, api::Right::kSubmit), "an administrator adds users with: usermod -aG lab stranger");
  EXPECT_EQ(hint(kSystem, api::Right::kManage), "root or a member of the group wheel may");
  EXPECT_EQ(hint(kSystem, api::Right::kControlJob), "its owner, root or a member of the group wheel may");
  EXPECT_NE(hint({{"wheel"}, {"lab"}}, api::Right::kSubmit).find("no group 'lab'"), std::string::npos);
}

TEST(CallerOf, KnowsTheUserAndItsGroups) {
  const auto caller = CallerOf({0, 0, 1});
  EXPECT_EQ(caller.user, "root");
  EXPECT_FALSE(caller.groups.empty());
  EXPECT_EQ(CallerOf({4000000, 7, 1}).user, "4000000");
}

}  // namespace
}  // namespace gpuman::daemon
