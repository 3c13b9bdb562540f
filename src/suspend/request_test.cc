#include "suspend/request.h"

#include <gtest/gtest.h>

namespace gpuman::suspend {
namespace {

TEST(SuspendRequest, ReadsTheSameAsWritten) {
  const MoverRequest checkpoint{7, Verb::kCheckpoint, {123, 456}, base::Millis(10'000), {}};
  EXPECT_EQ(ParseRequest(Serialize(checkpoint)).value(), checkpoint);
  const MoverRequest restore{8, Verb::kRestore, {123, 456}, {}, {{"GPU-a", "GPU-b"}, {"GPU-b", "GPU-a"}}};
  EXPECT_EQ(ParseRequest(Serialize(restore)).value(), restore);
  const MoverRequest give{.id = 9, .verb = Verb::kGive, .process = {1, 2}, .room = base::Bytes{}};
  EXPECT_EQ(ParseRequest(Serialize(give)).value(), give) << "no room is not no bound";
  const MoverRequest take{.id = 10, .verb = Verb::kTake, .process = {1, 2}, .whole = true};
  EXPECT_EQ(ParseRequest(Serialize(take)).value(), take);
  const MoverRequest grant{.verb = Verb::kGrant, .process = {1, 2}, .bytes = {4096}};
  EXPECT_EQ(ParseRequest(Serialize(grant)).value(), grant);
  const MoverRequest hold{.id = 11, .verb = Verb::kHold, .process = {1, 2}, .first = 32};
  EXPECT_EQ(ParseRequest(Serialize(hold)).value(), hold);
  const MoverRequest load{.id = 12, .verb = Verb::kLoad, .process = {1, 2}, .source = "GPU-a"};
  EXPECT_EQ(ParseRequest(Serialize(load)).value(), load);
  const MoverRequest prepare{.id = 13,
                             .verb = Verb::kPrepare,
                             .gpu = "GPU-a",
                             .bytes = {6},
                             .each = {{"GPU-a", {{1}, {2}}}, {"GPU-b", {{3}}}},
                             .unchanged = base::ChangeDetection::kOff,
                             .keep = base::Bytes{4}};
  EXPECT_EQ(ParseRequest(Serialize(prepare)).value(), prepare);
  EXPECT_EQ(SumOf(prepare.each), base::Bytes{6});
  const MoverAnswer moving{
      .id = 9, .outcome = MoverOutcome::kMoving, .bytes = {4096}, .pieces = 3, .gpu = "GPU-a"};
  EXPECT_EQ(ParseAnswer(Serialize(moving)).value(), moving);
  const MoverAnswer prepared{.id = 13, .outcome = MoverOutcome::kDone, .bytes = {6}, .kept = {4}};
  EXPECT_EQ(ParseAnswer(Serialize(prepared)).value(), prepared);
  const MoverRequest can{0, Verb::kCan};
  EXPECT_EQ(ParseRequest(Serialize(can)).value(), can);
}

TEST(SuspendRequest, TheWordsOfTheProtocolAreFixed) {
  EXPECT_EQ(Serialize(MoverRequest{7, Verb::kCheckpoint, {1, 2}, base::Millis(5), {}}),
            R"({"id":7,"do":"checkpoint","pid":1,"start_time":2,"lock_timeout_ms":5})");
  EXPECT_EQ(Serialize(MoverAnswer{7, MoverOutcome::kNoRoom, DriverState::kCheckpointed, "full"}),
            R"({"id":7,"outcome":"no_room","state":"checkpointed","message":"full"})");
  EXPECT_EQ(Serialize(MoverRequest{.id = 8, .verb = Verb::kSecure, .process = {1, 2}, .source = "GPU-a"}),
            R"({"id":8,"do":"secure","lane":"GPU-a","pid":1,"start_time":2})");
  EXPECT_EQ(Serialize(MoverAnswer{.id = 8, .outcome = MoverOutcome::kMoving, .gpu = "GPU-a"}),
            R"({"id":8,"outcome":"moving","state":"unknown","gpu":"GPU-a"})");
}

TEST(SuspendRequest, CopiesAreKeptByHashAndWithoutABoundUnlessItSaysOtherwise) {
  const auto plain = ParseRequest(R"({"id":1,"do":"prepare","bytes":8})");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->unchanged, base::ChangeDetection::kHash);
  EXPECT_EQ(plain->keep, std::nullopt);
  EXPECT_EQ(Serialize(MoverRequest{.id = 1, .verb = Verb::kPrepare, .bytes = {8}}),
            R"({"id":1,"do":"prepare","bytes":8})");
  const auto off = ParseRequest(R"({"id":1,"do":"prepare","bytes":8,"unchanged":"off","keep":0})");
  ASSERT_TRUE(off) << off.error().message;
  EXPECT_EQ(off->unchanged, base::ChangeDetection::kOff);
  EXPECT_EQ(off->keep, base::Bytes{}) << "nothing to keep is not no bound";
  EXPECT_FALSE(ParseRequest(R"({"id":1,"do":"prepare","bytes":8,"unchanged":"guess"})"));
}

TEST(SuspendRequest, DriverAndDaemonNameAGpuAlike) {
  EXPECT_EQ(BareUuid("MIG-1234-56"), BareUuid("GPU-1234-56"));
  EXPECT_NE(BareUuid("GPU-1234-56"), BareUuid("GPU-1234-57"));
  EXPECT_EQ(BareUuid(""), "");
}

TEST(SuspendRequest, RefusesWhatItCannotBeSureOf) {
  for (const char* line : {
           "",
           "[]",
           "{",
           R"({"id":1})",
           R"({"id":1,"do":"explode","pid":1,"start_time":2})",
           R"({"id":-1,"do":"state","pid":1,"start_time":2})",
           R"({"id":1,"do":"state","pid":0,"start_time":2})",
           R"({"id":1,"do":"state","pid":99999999999,"start_time":2})",
           R"({"id":1,"do":"state","pid":1})",
           R"({"id":1,"do":"checkpoint","pid":1,"start_time":2})",
           R"({"id":1,"do":"checkpoint","pid":1,"start_time":2,"lock_timeout_ms":0})",
           R"({"id":1,"do":"restore","pid":1,"start_time":2,"gpus":[["GPU-a"]]})",
           R"({"id":1,"do":"restore","pid":1,"start_time":2,"gpus":{}})",
       }) {
    const auto request = ParseRequest(line);
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error().code, base::ErrorCode::kCorrupt) << line;
  }
  EXPECT_FALSE(ParseRequest(std::string(kMaxLine + 1, ' ')));
}

TEST(SuspendAnswer, ReadsTheSameAsWritten) {
  const MoverAnswer answer{9, MoverOutcome::kRefused, DriverState::kRunning, "managed \"memory\""};
  EXPECT_EQ(ParseAnswer(Serialize(answer)).value(), answer);
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"done"})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"fine","state":"running"})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"done","state":"running","message":5})"));
}

// A mover is its user's process.
TEST(SuspendAnswer, AnImpossibleAnswerIsRefused) {
  EXPECT_TRUE(ParseAnswer(R"({"id":1,"outcome":"moving","state":"unknown","bytes":17592186044416})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"moving","state":"unknown","bytes":17592186044417})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"moving","state":"unknown","bytes":18446744073709551615})"));
  EXPECT_TRUE(ParseAnswer(R"({"id":1,"outcome":"moving","state":"unknown","bytes":8,"unchanged":8})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"moving","state":"unknown","bytes":8,"unchanged":9})"));
  EXPECT_TRUE(ParseAnswer(R"({"id":1,"outcome":"done","state":"unknown","bytes":8,"misjudged":1})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"done","state":"unknown","bytes":8,"misjudged":9})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"done","state":"unknown","kept":17592186044417})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"done","state":"unknown","milliseconds":4294967296})"));
  EXPECT_FALSE(ParseAnswer(R"({"id":1,"outcome":"moving","state":"unknown","gpu":")" + std::string(65, 'a') +
                           R"("})"));
}

TEST(SuspendAnswer, AMessageIsShortAndMovesNoCursor) {
  const auto answer =
      ParseAnswer(Serialize(MoverAnswer{1, MoverOutcome::kFailed, DriverState::kUnknown,
                                        "a\x1b[2J\r\nb" + std::string(990, 'x') + "\xc3\xa4\xc3\xa4"}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, "a [2J  b" + std::string(990, 'x') + "\xc3\xa4");
  EXPECT_LE(ParseAnswer(Serialize(MoverAnswer{1, MoverOutcome::kFailed, DriverState::kUnknown,
                                              std::string(60'000, 'x')}))
                ->message.size(),
            1000u);
}

TEST(SuspendAnswer, OnlyAWholeTransferIsTaken) {
  const MoverAnswer taken{.id = 1, .outcome = MoverOutcome::kTaken};
  EXPECT_TRUE(MayAnswer({.verb = Verb::kTake, .whole = true}, taken));
  EXPECT_FALSE(MayAnswer({.verb = Verb::kTake}, taken));
  EXPECT_FALSE(MayAnswer({.verb = Verb::kGive}, taken));
  EXPECT_FALSE(IsLast(MoverOutcome::kTaken) || IsLast(MoverOutcome::kMoving) ||
               IsLast(MoverOutcome::kHolding));
  EXPECT_TRUE(IsLast(MoverOutcome::kDone) && IsLast(MoverOutcome::kLost));
}

TEST(SuspendAnswer, BytesThatAreNoTextDoNoHarm) {
  const auto answer = ParseAnswer(Serialize(MoverAnswer{1, MoverOutcome::kFailed, DriverState::kUnknown,
                                                        "a\xff"
                                                        "b"}));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->message.starts_with("a"));
}

}  // namespace
}  // namespace gpuman::suspend
