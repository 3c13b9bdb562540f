#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/attach_json.h"
#include "api/test_server.h"

namespace gpuman::api {
namespace {

using base::ErrorCode;
using base::Millis;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::string_view kAttached = R"({"id":7,"tag":"t","environment":{"A":"b"}})";
constexpr Millis kLong{60'000};

AttachRequest Request() {
  AttachRequest request;
  request.pid = 12;
  request.tag = "t";
  return request;
}

TEST(Attach, ADaemonThatEndsBeforeItAnsweredIsAskedAgain) {
  const auto whole = TestServer::Answer(201, kAttached);
  const TestServer server({"", whole.substr(0, whole.size() / 2), whole});
  const auto attached = Attach(server.socket(), Request(), kLong);
  ASSERT_TRUE(attached) << attached.error().message;
  EXPECT_EQ(attached->id, 7);
  EXPECT_THAT(server.requests(), SizeIs(3));
}

TEST(Attach, OneThatNeverAnswersIsGivenUp) {
  const TestServer server({""});
  const auto attached = Attach(server.socket(), Request(), Millis(300));
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(server.requests(), SizeIs(::testing::Gt(1u)));
}

TEST(Attach, WhereNoDaemonWasNobodyIsWaitedFor) {
  const base::TempDir directory;
  const auto attached = Attach(directory.path() / "s", Request(), kLong);
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, ErrorCode::kUnavailable);
}

TEST(Attach, ARefusalIsNotAskedForAgain) {
  const TestServer server({TestServer::Answer(
      409, R"({"error":{"code":"conflict","message":"process 12 belongs to job 3","hint":""}})")});
  const auto attached = Attach(server.socket(), Request(), kLong);
  ASSERT_FALSE(attached);
  EXPECT_THAT(attached.error().message, HasSubstr("belongs to job 3"));
  EXPECT_THAT(server.requests(), SizeIs(1));
}

}  // namespace
}  // namespace gpuman::api
