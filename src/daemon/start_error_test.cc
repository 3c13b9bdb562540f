#include "daemon/start_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using base::Error;
using base::ErrorCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uid_t kAda = 1000;
const Error kRefused{ErrorCode::kPermissionDenied, "making directory /var/lib/gpuman: Permission denied", {}};
const Error kTaken{ErrorCode::kAlreadyExists, "a daemon already serves it", "stop it first"};

TEST(StartError, UserWithoutRightsGetsUserModeHint) {
  const auto told = WithUserMode(kRefused, false, kAda);
  EXPECT_EQ(told.message, kRefused.message);
  EXPECT_THAT(told.hint, AllOf(HasSubstr("only root"), HasSubstr("gpumand --user serves its user alone")));
}

TEST(StartError, RootGetsUserModeHintWhereSocketFails) {
  EXPECT_THAT(WithUserMode(kTaken, false, 0).hint,
              AllOf(StartsWith("stop it first; gpumand --user "), Not(HasSubstr("root"))));
  EXPECT_THAT(WithUserMode(kRefused, false, 0).hint, StartsWith("gpumand --user "));
}

TEST(StartError, OtherErrorsGetNoUserModeHint) {
  EXPECT_EQ(WithUserMode(kRefused, true, kAda).hint, "");
  EXPECT_EQ(WithUserMode(kTaken, true, kAda).hint, "stop it first");
  EXPECT_EQ(WithUserMode({ErrorCode::kCorrupt, "gpuman.db is no database", {}}, false, 0).hint, "");
}

}  // namespace
}  // namespace gpuman::daemon
