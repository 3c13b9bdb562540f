#include "mps/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MpsAnswers, APidALineIsAListAndNothingIsAnEmptyOne) {
  EXPECT_THAT(*ParsePids("4711\n4712\n"), ElementsAre(4711, 4712));
  EXPECT_THAT(*ParsePids("4711"), ElementsAre(4711));
  EXPECT_THAT(*ParsePids(" 4711 \r\n\n"), ElementsAre(4711));
  EXPECT_THAT(*ParsePids(""), IsEmpty());
}

TEST(MpsAnswers, ASentenceInsteadOfAListIsARefusalWithThatSentence) {
  const auto pids = ParsePids("Server 12 not found\n");
  ASSERT_FALSE(pids);
  EXPECT_EQ(pids.error().code, base::ErrorCode::kConflict);
  EXPECT_THAT(pids.error().message, HasSubstr("Server 12 not found"));
  EXPECT_FALSE(ParsePids("-4"));
  EXPECT_FALSE(ParsePids("0"));
  EXPECT_FALSE(ParsePids("99999999999999999999"));
}

TEST(MpsAnswers, ARefusalBringsNoControlCharactersAndNoBook) {
  const auto pids = ParsePids("\x1b[31mred\n" + std::string(10'000, 'x'));
  ASSERT_FALSE(pids);
  EXPECT_EQ(pids.error().message.find('\x1b'), std::string::npos);
  EXPECT_LT(pids.error().message.size(), 300u);
}

TEST(MpsAnswers, PercentagesAreNumbersUpToAHundred) {
  EXPECT_EQ(*ParsePercentage("50.0\n"), 50.0);
  EXPECT_EQ(*ParsePercentage("100"), 100.0);
  for (const char* wrong : {"", "101", "-1", "nan", "inf", "fifty", "50%"})
    EXPECT_FALSE(ParsePercentage(wrong)) << wrong;
}

TEST(MpsAnswers, MemoryLimitsHaveUnitsAndZeroIsNone) {
  EXPECT_EQ(*ParseMemoryLimit("8192M\n"), base::GiB(8));
  EXPECT_EQ(*ParseMemoryLimit("8G"), base::GiB(8));
  EXPECT_EQ(*ParseMemoryLimit("8GB"), base::GiB(8));
  EXPECT_EQ(*ParseMemoryLimit("1048576"), base::MiB(1));
  EXPECT_EQ(*ParseMemoryLimit("0"), std::nullopt);
  EXPECT_EQ(*ParseMemoryLimit(""), std::nullopt);
  EXPECT_FALSE(ParseMemoryLimit("no limit"));
  EXPECT_FALSE(ParseMemoryLimit("99999999999999999999G"));
  EXPECT_FALSE(ParseMemoryLimit("18446744073709551615T"));
}

TEST(MpsAnswers, SettingAnswersNothingOrTheValue) {
  for (const char* fine : {"", "\n", "50.0\n", "8192M"}) EXPECT_TRUE(ParseDone(fine)) << fine;
  EXPECT_FALSE(ParseDone("Invalid percentage"));
}

TEST(MpsAnswers, TheHelpOfProtocol3NamesItsModules) {
  EXPECT_EQ(ParseProtocol("Modules:\n  Server  …\n  namespace  …\n"), 3);
  for (const char* older : {"", "usage: nvidia-cuda-mps-control [-d | -f]", "starts a server"})
    EXPECT_EQ(ParseProtocol(older), 2) << older;
  EXPECT_TRUE(NamesTimeSlices("server set <name> [--uid=<n>] [--timeslice-pct=<pct>]"));
  EXPECT_FALSE(NamesTimeSlices("server set <name> [--active-thread-percentage=<pct>]"));
}

TEST(MpsAnswers, ServersAreRowsWithAHeadOrWithout) {
  const std::string row = "training,1000,48201,Ready,/run/nvidia-mps/training,GPU-a,GPU-b,-\n";
  const ServerRow server{"training", 1000, 48201, "ready"};
  EXPECT_THAT(*ParseServers(row), ElementsAre(server));
  EXPECT_THAT(*ParseServers("name,uid,pid,status,pipe-directory\n" + row), ElementsAre(server));
  EXPECT_THAT(*ParseServers("NAME, STATUS, UID, PID\ntraining, Ready, 1000, 48201\n"), ElementsAre(server))
      << "the head says what a column is";
  EXPECT_THAT(*ParseServers("u7,7,-,Starting\n"), ElementsAre(ServerRow{"u7", 7, 0, "starting"}));
  for (const char* none : {"", "\n", "NAME,UID,PID,STATUS\n", "No servers\n"})
    EXPECT_THAT(*ParseServers(none), IsEmpty()) << none;
}

TEST(MpsAnswers, NamespacesHaveLimitsOrNone) {
  EXPECT_THAT(*ParseNamespaces(
                  "name,server,server-status,pinned-memory-limit,active-thread-percentage,client-priority\n"
                  "job7,u1000,Ready,5G,25.00,0\ndefault,u1000,Ready,-,100.00,0\nbatch,u1000,Ready,,,\n"),
              ElementsAre(NamespaceRow{"job7", "u1000", {25.0, base::GiB(5)}},
                          NamespaceRow{"default", "u1000", {100.0, {}}}, NamespaceRow{"batch", "u1000", {}}));
  EXPECT_THAT(*ParseNamespaces("NAME,SERVER,SERVER STATUS,PINNED MEMORY LIMIT,ACTIVE THREAD PERCENTAGE\n"
                               "small,shared,Ready,20G,30.00\n"),
              ElementsAre(NamespaceRow{"small", "shared", {30.0, base::GiB(20)}}));
}

TEST(MpsAnswers, ClientsHaveAServerAndANamespace) {
  EXPECT_THAT(*ParseClients("51023,training,0,default,python train.py --lr=1,2\n"),
              ElementsAre(ClientRow{51023, "training", "default"}));
  EXPECT_THAT(*ParseClients("PID,SERVER,DEVICE,PCI ID,LINUX NS,MAWS NS,CMD\n9,u1,0,00:01.0,402,job7,sh\n"),
              ElementsAre(ClientRow{9, "u1", "job7"}));
  EXPECT_THAT(*ParseClients("PID,SERVER\n9,u1\n"), ElementsAre(ClientRow{9, "u1", {}})) << "it is not told";
}

TEST(MpsAnswers, ATableThatIsNotUnderstoodIsARefusalWithItsText) {
  for (const char* wrong : {"training,1000\n", "training,1000,pid,Ready\n", "name,uid\nu1,1\n",
                            "Cannot find MPS control daemon process\n", ",1000,1,Ready\n"}) {
    const auto servers = ParseServers(wrong);
    ASSERT_FALSE(servers) << wrong;
    EXPECT_EQ(servers.error().code, base::ErrorCode::kConflict);
  }
  EXPECT_FALSE(ParseNamespaces("job7,u1000,Ready,much,25.00\n"));
  EXPECT_FALSE(ParseNamespaces("job7,u1000,Ready,5G,200\n"));
  EXPECT_FALSE(ParseClients("0,u1000\n"));
  EXPECT_FALSE(ParseClients("51023\n"));
}

TEST(MpsAnswers, AnAnswerIsShownAsOneLine) {
  EXPECT_EQ(Shown({1, "  Error: no\nUsage: …\n"}), "Error: no");
  EXPECT_EQ(Shown({3, "\n"}), "exit status 3");
}

TEST(MpsAnswers, AClientsVariablesAreOfItsFirstDevice) {
  EXPECT_EQ(MemoryVariable("0=8G,1=512M"), base::GiB(8));
  EXPECT_EQ(MemoryVariable("1=512M, 0=1G"), base::GiB(1));
  EXPECT_EQ(MemoryVariable("1=512M"), std::nullopt);
  EXPECT_EQ(MemoryVariable("0=much"), std::nullopt);
  EXPECT_EQ(ThreadsVariable("25"), 25.0);
  EXPECT_EQ(ThreadsVariable("all"), std::nullopt);
}

}  // namespace
}  // namespace gpuman::mps
