#include "mps/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Notice::Kind;

Server Serving(pid_t pid, uid_t uid, std::vector<pid_t> clients = {}) {
  Server server{pid, uid, {}, {}};
  for (const pid_t client : clients) server.clients.push_back({client, uid, {}, {}});
  return server;
}

TEST(MpsWatch, AServerThatIsGoneHasDiedAndTookItsClientsAlong) {
  Watch watch;
  EXPECT_THAT(watch.On({{Serving(10, 1000, {20, 21})}, {}}), IsEmpty());
  EXPECT_THAT(watch.On({{}, {}}), ElementsAre(Notice{Kind::kServerDied, 10, {20, 21}}));
  EXPECT_THAT(watch.On({{}, {}}), IsEmpty());
}

TEST(MpsWatch, AServerThatMakesWayForAnotherUserHasNotDied) {
  Watch watch;
  watch.On({{Serving(10, 1000, {20})}, {}});
  EXPECT_THAT(watch.On({{Serving(11, 1001, {30})}, {}}), IsEmpty());
}

TEST(MpsWatch, AServerInPlaceOfOneOfTheSameUserTellsOfADeath) {
  Watch watch;
  watch.On({{Serving(10, 1000, {20})}, {}});
  EXPECT_THAT(watch.On({{Serving(11, 1000, {30})}, {}}), ElementsAre(Notice{Kind::kServerDied, 10, {20}}));
}

TEST(MpsWatch, AProcessOnTheGpuThatIsNoClientIsToldOnceWhenSeenTwice) {
  Watch watch;
  const Look look{{Serving(10, 1000, {20})}, {10, 20, 30}};
  EXPECT_THAT(watch.On(look), IsEmpty());
  EXPECT_THAT(watch.outside(), IsEmpty());
  EXPECT_THAT(watch.On(look), ElementsAre(Notice{Kind::kOutside, 30, {}}));
  EXPECT_THAT(watch.outside(), ElementsAre(30));
  EXPECT_THAT(watch.On(look), IsEmpty());
}

TEST(MpsWatch, AProgramThatIsJustJoiningIsNotOutside) {
  Watch watch;
  watch.On({{Serving(10, 1000)}, {30}});
  EXPECT_THAT(watch.On({{Serving(10, 1000, {30})}, {30}}), IsEmpty());
  EXPECT_THAT(watch.outside(), IsEmpty());
}

TEST(MpsWatch, WhoLeavesTheGpuAndComesBackIsToldAgain) {
  Watch watch;
  watch.On({{}, {30}});
  watch.On({{}, {30}});
  watch.On({{}, {}});
  EXPECT_THAT(watch.outside(), IsEmpty());
  watch.On({{}, {30}});
  EXPECT_THAT(watch.On({{}, {30}}), ElementsAre(Notice{Kind::kOutside, 30, {}}));
}

TEST(MpsWatch, ADaemonThatBeginsAnewIsNotComparedWithTheOldOne) {
  Watch watch;
  watch.On({{Serving(10, 1000)}, {30}});
  watch.Reset();
  EXPECT_THAT(watch.On({{}, {30}}), IsEmpty());
}

}  // namespace
}  // namespace gpuman::mps
