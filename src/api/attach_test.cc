// Attaching, with a daemon that is there, is not there, or ends before it has answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "api/attach_json.h"
#include "api/test_server.h"

namespace gpuman::api {
namespace {

using base::ErrorCode;
using base::Millis;

constexpr Millis kLong{30'000};

AttachRequest Asked() {
  AttachRequest request;
  request.pid = 5;
  request.tag = "step";
  return request;
}

std::string Held() { return TestServer::Answer(201, R"({"id":7,"environment":{"A":"b"}})"); }

// Leaves a socket as a killed daemon does.
void LeaveSocket(const std::filesystem::path& path) {
  const base::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

TEST(Attach, AsksTheNextDaemonWhereOneEndsBeforeItsAnswerIsComplete) {
  for (const auto& begun : {std::string(), Held().substr(0, 20), Held().substr(0, Held().size() - 3)}) {
    const TestServer server({begun, begun, Held()});
    const auto held = Attach(server.socket(), Asked(), kLong);
    ASSERT_TRUE(held) << held.error().message;
    EXPECT_EQ(held->id, 7);
    const auto asked = server.requests();
    ASSERT_EQ(asked.size(), 3u);
    EXPECT_EQ(asked[0], asked[2]);
  }
}

TEST(Attach, WaitsWhereADaemonWasKilledForTheNextOne) {
  const base::TempDir directory;
  const TestServer server({Held()});
  const auto left = directory.path() / "left", path = directory.path() / "s", next = directory.path() / "n";
  LeaveSocket(left);
  std::filesystem::create_symlink(left, path);
  std::thread starting([&] {
    std::this_thread::sleep_for(Millis(120));
    std::filesystem::create_symlink(server.socket(), next);
    std::filesystem::rename(next, path);
  });
  const auto held = Attach(path, Asked(), kLong);
  starting.join();
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(held->id, 7);
}

TEST(Attach, GivesUpOnTheNextDaemonWhenItsPatienceIsOver) {
  const base::TempDir directory;
  LeaveSocket(directory.path() / "s");
  const TestServer server({""});
  for (const auto& socket : {directory.path() / "s", server.socket()}) {
    const auto began = std::chrono::steady_clock::now();
    const auto held = Attach(socket, Asked(), Millis(200));
    ASSERT_FALSE(held);
    // The last try may have been the one that the time limit cut off.
    EXPECT_THAT(held.error().code, testing::AnyOf(ErrorCode::kUnavailable, ErrorCode::kTimeout));
    EXPECT_GE(std::chrono::steady_clock::now() - began, Millis(100));
  }
}

TEST(Attach, DoesNotWaitWhereNoDaemonWas) {
  const base::TempDir directory;
  const auto began = std::chrono::steady_clock::now();
  const auto held = Attach(directory.path() / "s", Asked(), kLong);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLong / 2);
}

TEST(Attach, AsksForTheOptionsOfAJobBesideTheProcess) {
  const auto request = Decode<AttachRequest>(
      R"({"pid":5,"tag":"step","memory":"1GiB","at_most":2147483648,"soft":"50%","preload":false,)"
      R"("share":true,"compute":{"percent":25},"latency":true})");
  ASSERT_TRUE(request) << request.error().message;
  spec::AttachOptions options;
  options.memory = base::SizeSpec{base::GiB(1)};
  options.soft = base::SizeSpec{{}, 50};
  options.preload = false;
  options.share = options.latency = true;
  options.compute = {25, false};
  EXPECT_EQ(static_cast<const spec::AttachOptions&>(*request), options);
  EXPECT_EQ(request->at_most, base::GiB(2));
  EXPECT_EQ(static_cast<const spec::AttachOptions&>(*Decode<AttachRequest>(Encode(*request))), options);
}

TEST(Attach, TakesARefusalForAnAnswer) {
  const TestServer server(
      {TestServer::Answer(503, R"({"error":{"code":"unavailable","message":"no"}})"), Held()});
  const auto held = Attach(server.socket(), Asked(), kLong);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().message, "no");
}

}  // namespace
}  // namespace gpuman::api
