#include "mps/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = MpsNotice::Kind;

MpsServerStatus Serving(pid_t pid, uid_t uid, const std::vector<pid_t>& clients = {}) {
  MpsServerStatus server{pid, uid, {}, {}};
  for (const pid_t client : clients) server.clients.push_back({client, uid, {}, {}});
  return server;
}

MpsNotice Died(pid_t server, const std::vector<pid_t>& clients, uid_t uid = 1000) {
  return {Kind::kServerDied, server, Serving(server, uid, clients).clients};
}

TEST(MpsClientWatch, AServerThatIsGoneHasDiedAndTookItsClientsAlong) {
  MpsClientWatch watch;
  EXPECT_THAT(watch.On({{Serving(10, 1000, {20, 21})}, {}}), IsEmpty());
  EXPECT_THAT(watch.On({{}, {}}), IsEmpty());  // another user's server may replace it
  EXPECT_THAT(watch.On({{}, {}}), ElementsAre(Died(10, {20, 21})));
  EXPECT_THAT(watch.On({{}, {}}), IsEmpty());
}

TEST(MpsClientWatch, AServerThatMakesWayForAnotherUserHasNotDied) {
  MpsClientWatch watch;
  watch.On({{Serving(10, 1000, {20})}, {}});
  EXPECT_THAT(watch.On({{Serving(11, 1001, {30})}, {}}), IsEmpty());
}

TEST(MpsClientWatch, ServerWhoseSuccessorIsStillStartingHasNotDied) {
  MpsClientWatch watch;
  watch.On({{Serving(10, 1000, {20})}, {}});
  EXPECT_THAT(watch.On({{}, {}}), IsEmpty());
  EXPECT_THAT(watch.On({{Serving(11, 1001, {30})}, {}}), IsEmpty());
  EXPECT_THAT(watch.On({{}, {}}), IsEmpty());
  EXPECT_THAT(watch.On({{Serving(12, 1001, {31})}, {}}), ElementsAre(Died(11, {30}, 1001)));
}

TEST(MpsClientWatch, AServerSeenBeforeAResetIsNotReportedDead) {
  MpsClientWatch watch;
  watch.On({{Serving(10, 1000, {20})}, {}});
  watch.On({{}, {}});
  watch.Reset();
  EXPECT_THAT(watch.On({{}, {}}), IsEmpty());
}

TEST(MpsClientWatch, AClientThatEndedWithItsServerIsNamedWithItsJob) {
  MpsClientWatch watch;
  MpsServerStatus server = Serving(10, 1000, {20});
  server.clients.front().job = base::JobId{7};
  watch.On({{server}, {}});
  // The process is a zombie: the server still lists it, and it has no user any more.
  watch.On({{Serving(10, 1000, {20})}, {}});
  watch.On({{}, {}});
  EXPECT_THAT(watch.On({{}, {}}), ElementsAre(MpsNotice{Kind::kServerDied, 10, server.clients}));
}

TEST(MpsClientWatch, AServerInPlaceOfOneOfTheSameUserTellsOfADeath) {
  MpsClientWatch watch;
  watch.On({{Serving(10, 1000, {20})}, {}});
  EXPECT_THAT(watch.On({{Serving(11, 1000, {30})}, {}}), ElementsAre(Died(10, {20})));
}

TEST(MpsClientWatch, AProcessOnTheGpuThatIsNoClientIsToldOnceWhenSeenTwice) {
  MpsClientWatch watch;
  const Observation observed{{Serving(10, 1000, {20})}, {10, 20, 30}};
  EXPECT_THAT(watch.On(observed), IsEmpty());
  EXPECT_THAT(watch.outside(), IsEmpty());
  EXPECT_THAT(watch.On(observed), ElementsAre(MpsNotice{Kind::kUnlimitedProcess, 30, {}}));
  EXPECT_THAT(watch.outside(), ElementsAre(30));
  EXPECT_THAT(watch.On(observed), IsEmpty());
}

TEST(MpsClientWatch, AProgramThatIsJustJoiningIsNotOutside) {
  MpsClientWatch watch;
  watch.On({{Serving(10, 1000)}, {30}});
  EXPECT_THAT(watch.On({{Serving(10, 1000, {30})}, {30}}), IsEmpty());
  EXPECT_THAT(watch.outside(), IsEmpty());
}

TEST(MpsClientWatch, AProcessThatReturnsToTheGpuIsReportedAgain) {
  MpsClientWatch watch;
  watch.On({{}, {30}});
  watch.On({{}, {30}});
  watch.On({{}, {}});
  EXPECT_THAT(watch.outside(), IsEmpty());
  watch.On({{}, {30}});
  EXPECT_THAT(watch.On({{}, {30}}), ElementsAre(MpsNotice{Kind::kUnlimitedProcess, 30, {}}));
}

TEST(MpsClientWatch, ADaemonThatBeginsAnewIsNotComparedWithTheOldOne) {
  MpsClientWatch watch;
  watch.On({{Serving(10, 1000)}, {30}});
  watch.Reset();
  EXPECT_THAT(watch.On({{}, {30}}), IsEmpty());
}

MpsServerStatus Named(const std::string& name, pid_t pid, uid_t uid, const std::vector<pid_t>& clients = {}) {
  auto server = Serving(pid, uid, clients);
  server.name = name;
  return server;
}

TEST(MpsClientWatch, AServerWithANameIsDeadAtOnceWhereItWasNotDeleted) {
  const std::vector<MpsServerStatus> both{Named("u1000", 10, 1000, {20}), Named("u1001", 11, 1001)};
  MpsClientWatch watch;
  EXPECT_THAT(watch.On({both, {}}), IsEmpty());
  EXPECT_THAT(watch.On({{both[1]}, {}}), ElementsAre(MpsNotice{Kind::kServerDied, 10, both[0].clients}))
      << "one of another user does not take its place";
  EXPECT_THAT(watch.On({{}, {}}), ElementsAre(MpsNotice{Kind::kServerDied, 11, {}}));
  EXPECT_THAT(watch.On({both, {}}), IsEmpty());
  watch.Forget("u1000");
  EXPECT_THAT(watch.On({{both[1]}, {}}), IsEmpty());
}

TEST(MpsClientWatch, AClientHasTheLimitsOfItsNamespace) {
  auto server = Named("u1000", 10, 1000, {20, 21});
  server.limits = {50.0, {}};
  server.namespaces = {{"default", {50.0, {}}}, {"job7", {{}, base::GiB(2)}}};
  server.clients[0].name_space = "job7";
  server.clients[1].name_space = "default";
  server.clients[0].limits = {{}, base::GiB(4)};
  MpsClientWatch watch;
  watch.On({{server}, {}});
  EXPECT_EQ(watch.servers().at(0).clients.at(0).limits, (Limits{{}, base::GiB(2)}));
  EXPECT_EQ(watch.servers().at(0).clients.at(1).limits, (Limits{50.0, {}}));
}

// A server with these limits, and a client with limits of its own.
Observation Limited(Limits of_server, Limits of_client) {
  auto server = Serving(10, 1000, {20});
  server.limits = of_server;
  server.clients.front().limits = of_client;
  return {{server}, {}};
}

MpsClient ClientIn(const MpsClientWatch& watch) { return watch.servers().at(0).clients.at(0); }

TEST(MpsClientWatch, AClientHasTheLowerOfItsOwnLimitsAndItsServers) {
  const Limits half{50.0, base::GiB(8)};
  const struct {
    const char* what;
    Limits server, client, holds;
  } table[] = {{"none", {}, {}, {}},
               {"the server's", half, {}, half},
               {"its own", {}, half, half},
               {"less than the server's", half, {25.0, base::GiB(2)}, {25.0, base::GiB(2)}},
               {"more than the server's", half, {75.0, base::GiB(9)}, half}};
  for (const auto& row : table) {
    MpsClientWatch watch;
    watch.On(Limited(row.server, row.client));
    EXPECT_EQ(ClientIn(watch).limits, row.holds) << row.what;
    EXPECT_TRUE(ClientIn(watch).limits_known) << row.what;
  }
}

TEST(MpsClientWatch, AClientKeepsTheLimitsThatItCameWith) {
  MpsClientWatch watch;
  watch.On(Limited({50.0, {}}, {}));
  auto observed = Limited({20.0, {}}, {});
  observed.servers.front().clients.push_back({21, 1000, {}, {}});
  watch.On(observed);
  EXPECT_EQ(ClientIn(watch).limits, (Limits{50.0, {}}));
  EXPECT_EQ(watch.servers().at(0).clients.at(1).limits, (Limits{20.0, {}}));
  EXPECT_EQ(watch.servers().at(0).limits, (Limits{20.0, {}}));
}

TEST(MpsClientWatch, LimitsOfEarlierClientsAreUnknownAfterChange) {
  MpsClientWatch watch;
  watch.Reset(false);
  watch.On(Limited({20.0, {}}, {}));
  EXPECT_FALSE(ClientIn(watch).limits_known);
  auto observed = Limited({20.0, {}}, {});
  observed.servers.front().clients.push_back({21, 1000, {}, {}});
  watch.On(observed);
  EXPECT_FALSE(ClientIn(watch).limits_known);
  EXPECT_TRUE(watch.servers().at(0).clients.at(1).limits_known) << "it came under those of now";
}

}  // namespace
}  // namespace gpuman::mps
