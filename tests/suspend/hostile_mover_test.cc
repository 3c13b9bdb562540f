// A mover is a process of its user: its behaviour costs only its own user.
#include <signal.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "fixture.h"

namespace gpuman::suspend {
namespace {

using ::testing::HasSubstr;

class HostileMoverTest : public CheckpointerFixture {
 protected:
  HostileMoverTest() {
    ada.trust = "ada";
    bob.trust = "bob";
    ada.instance = "ada";  // which the script sees
    options.turns.alone = base::Millis(50);
  }
  void TearDown() override {
    for (const pid_t pid : Get().MoverPids()) ::kill(pid, SIGKILL);
    std::ofstream(dir.path() / "over") << "\n";
    CheckpointerFixture::TearDown();
  }

  static std::string Self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }
  // Ada's movers run this script, whose standard input is the socket; all others answer every request.
  void OfAda(const std::string& text) {
    options.program.path = dir.path() / "mover";
    std::ofstream(options.program.path) << "#!/bin/sh\nif [ \"$CUDA_VISIBLE_DEVICES\" = ada ]; then\n"
                                        << text << "\nfi\nexec " << Self() << " --forge honest -\n";
    std::filesystem::permissions(options.program.path, std::filesystem::perms::owner_all);
  }
  void OfAdaIsForged(const char* how) {
    OfAda("exec " + Self() + " --forge " + how + " " + (dir.path() / "over").string());
  }
  static constexpr const char* kHello = R"(echo '{"id":0,"outcome":"done","state":"unknown"}' >&0)";

  std::shared_ptr<Asked> AskOf(const MoverUser& whose) {
    user = whose;
    return Post({.verb = Verb::kState, .process = base::SelfId()});
  }
  // Others get answers while Ada does not.
  void OthersAreAnswered(const std::shared_ptr<Asked>& of_ada) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Wait(AskOf(bob)).outcome, MoverOutcome::kDone);
    EXPECT_FALSE(of_ada->answer) << of_ada->answer->message;
  }
  bool LoopTurns() {
    bool turned = false;
    boost::asio::post(loop, [&] { turned = true; });
    return Until([&] { return turned; });
  }
  static std::size_t Descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  MoverUser ada = user, bob = user;
};

TEST_F(HostileMoverTest, AMoverThatStandsStillInItsTurnKeepsOthersWaitingForTheTurnAlone) {
  OfAda(std::string(kHello) + "\nexec sleep 1000");
  const auto asked = AskOf(ada);
  ASSERT_TRUE(Until([&] { return Get().MoverPid(ada).has_value(); }));
  OthersAreAnswered(asked);
}

TEST_F(HostileMoverTest, AMoverThatDoesNotGetReadyKeepsNobodyElseWaiting) {
  OfAda("exec sleep 1000");
  OthersAreAnswered(AskOf(ada));
}

TEST_F(HostileMoverTest, AMoverThatIsStoppedKeepsNobodyElseWaiting) {
  OfAda(std::string(kHello) + "\nkill -STOP $$\nsleep 1000");
  OthersAreAnswered(AskOf(ada));
}

TEST_F(HostileMoverTest, ManyRequestsOfOneUserDelayAnotherUserByOneAtMost) {
  OfAda(std::string(kHello) + "\nexec sleep 1000");
  std::vector<std::shared_ptr<Asked>> asked;
  asked.reserve(100);
  for (int i = 0; i < 100; ++i) asked.push_back(AskOf(ada));
  OthersAreAnswered(asked.front());
}

TEST_F(HostileMoverTest, TheLimitOfOneMoverEndsItsRequestsAlone) {
  options.request_limit = base::Millis(3'000);
  OfAda(std::string(kHello) + "\nexec sleep 1000");
  const auto asked = AskOf(ada);
  EXPECT_EQ(Wait(AskOf(bob)).outcome, MoverOutcome::kDone);
  const auto pid = Get().MoverPid(bob);
  const MoverAnswer answer = Wait(asked);
  EXPECT_EQ(answer.outcome, MoverOutcome::kLost);
  EXPECT_THAT(answer.message, HasSubstr("did not answer within"));
  EXPECT_EQ(Wait(AskOf(bob)).outcome, MoverOutcome::kDone);
  EXPECT_EQ(Get().MoverPid(bob), pid);
}

TEST_F(HostileMoverTest, AMoverThatDiesBeforeEachTurnIsGivenUp) {
  OfAda(std::string(kHello) + "\necho x >> " + (dir.path() / "starts").string() + "\nexit 0");
  const MoverAnswer answer = Wait(AskOf(ada));
  EXPECT_TRUE(answer.outcome == MoverOutcome::kFailed || answer.outcome == MoverOutcome::kLost)
      << answer.message;
  EXPECT_LE(base::ReadFile(dir.path() / "starts").value().size(), 2u * 3);
}

// Numbers of requests are easily guessed.
TEST_F(HostileMoverTest, AMoverThatAnswersWhatAnotherWasAskedIsNotBelieved) {
  OfAda(std::string(kHello) + R"(
for id in 1 2 3 4 5 6 7 8 9; do echo '{"id":'$id',"outcome":"done","state":"checkpointed"}' >&0; done
exec sleep 1000)");
  options.turns.alone = base::Millis(60'000);
  // Bob's request has the turn, so that Ada's is never sent.
  const auto of_bob = AskOf(bob);
  const auto of_ada = AskOf(ada);
  const MoverAnswer bobs = Wait(of_bob);
  EXPECT_EQ(bobs.outcome, MoverOutcome::kDone);
  EXPECT_EQ(bobs.state, DriverState::kRunning) << "what Bob's own mover said";
  const MoverAnswer adas = Wait(of_ada);
  EXPECT_NE(adas.outcome, MoverOutcome::kDone);
  EXPECT_EQ(Wait(AskOf(bob)).outcome, MoverOutcome::kDone);
}

TEST_F(HostileMoverTest, DescriptorsFromAMoverAreClosedOffTheLoop) {
  OfAdaIsForged("lingering");
  const MoverAnswer answer = Wait(AskOf(ada));
  EXPECT_EQ(answer.outcome, MoverOutcome::kLost);
  EXPECT_THAT(answer.message, HasSubstr("no memory of a GPU"));
  EXPECT_TRUE(LoopTurns());
  EXPECT_EQ(Wait(AskOf(bob)).outcome, MoverOutcome::kDone);
}

class HostileTransferTest : public HostileMoverTest {
 protected:
  struct Taken {
    base::Fd ours;
    std::shared_ptr<Asked> asked = std::make_shared<Asked>();
    bool moving = false;
  };
  std::shared_ptr<Taken> Take() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    auto taken = std::make_shared<Taken>();
    taken->ours = base::Fd(pair[0]);
    Get().Move(
        ada, {.verb = Verb::kTake, .process = base::SelfId(), .whole = true},
        base::UntrustedSocket(base::Fd(pair[1]), std::make_shared<base::Closer>()),
        [taken](const MoverAnswer& answer) { taken->asked->answer = answer; },
        [taken](const MoverAnswer& notice) { taken->moving = taken->moving || notice.bytes.count == 1; });
    return taken;
  }
};

TEST_F(HostileTransferTest, DescriptorsHeldForOneUserAreBounded) {
  options.most_held = 100;
  OfAdaIsForged("holding");
  const std::size_t before = Descriptors();
  const auto taken = Take();
  ASSERT_TRUE(Until([&] { return taken->moving || taken->asked->answer; }));
  EXPECT_TRUE(taken->moving) << "an honest one may have many";
  EXPECT_LE(Descriptors(), before + options.most_held + 20);
}

TEST_F(HostileTransferTest, AMoverThatNamesMoreGpusThanThereAreIsKilled) {
  options.most_gpus = 10;
  OfAdaIsForged("many_gpus");
  const std::size_t before = Descriptors();
  const MoverAnswer answer = Wait(Take()->asked);
  EXPECT_EQ(answer.outcome, MoverOutcome::kLost);
  EXPECT_THAT(answer.message, HasSubstr("more GPUs than a process has"));
  EXPECT_LE(Descriptors(), before + options.most_gpus + 20);
}

TEST_F(HostileTransferTest, AProcessThatConnectsAgainAndAgainIsSentAway) {
  options.most_of_process = 3;
  OfAda("exec sleep 1000");
  std::vector<std::shared_ptr<Taken>> taken;
  taken.reserve(50);
  for (int i = 0; i < 50; ++i) taken.push_back(Take());
  for (std::size_t i = 3; i < taken.size(); ++i)
    EXPECT_THAT(Wait(taken[i]->asked).message, HasSubstr("too many transfers"));
  char byte = 0;
  EXPECT_EQ(::recv(taken[0]->ours.get(), &byte, 1, MSG_DONTWAIT), -1) << "waits";
  EXPECT_EQ(::recv(taken[49]->ours.get(), &byte, 1, 0), 0) << "closed";
}

TEST_F(HostileTransferTest, AMoverThatSaysWhatIsNoAnswerIsKilled) {
  OfAda(std::string(kHello) + R"(
for id in 1 2 3; do echo '{"id":'$id',"outcome":"moving","state":"unknown","bytes":99999999999999999}' >&0; done
exec sleep 1000)");
  EXPECT_EQ(Wait(Take()->asked).outcome, MoverOutcome::kLost);
}

}  // namespace
}  // namespace gpuman::suspend
