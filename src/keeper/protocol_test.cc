#include "keeper/protocol.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuman::keeper {
namespace {

template <typename T>
T Through(const T& command) {
  const auto packet = SerializeMessage(ClientMessage(NumberedCommand{9, command}));
  const auto back = ParseClientMessage(packet);
  EXPECT_TRUE(back) << packet;
  const auto& numbered = std::get<NumberedCommand>(*back);
  EXPECT_EQ(numbered.id, 9u);
  return std::get<T>(numbered.command);
}

TEST(Protocol, CommandsComeThroughWhole) {
  const auto reason = Through(SetEndReason{3, {"memory_limit", "600MiB of \xff"}, true});
  EXPECT_EQ(reason.run, 3u);
  EXPECT_EQ(reason.reason, (EndReason{"memory_limit", "600MiB of \xff"}));
  EXPECT_TRUE(reason.final);

  const auto stop = Through(StopJob{{"removed", ""}, 2, base::Millis{0}});
  EXPECT_EQ(stop.signal, 2);
  EXPECT_EQ(stop.grace, base::Millis{0});
  EXPECT_FALSE(Through(RestartJob{}).grace);

  UpdateSettings update;
  update.restart = RestartPolicy{.mode = RestartMode::kAlways, .max_restarts = 4};
  update.log_rotations = 5;
  EXPECT_EQ(Through(update), update);
  EXPECT_EQ(ParseSettings(SerializeSettings(update)).value(), update);
  EXPECT_EQ(Through(UpdateSettings{}), UpdateSettings{});

  EXPECT_TRUE(Through(SendSignalTo{10, true}).tree);
  EXPECT_EQ(Through(WriteLogNote{"hello\n"}).text, "hello\n");
  EXPECT_EQ(Through(RecordsStored{7}).up_to, 7u);
  Through(HoldFile{});
}

TEST(Protocol, KeeperMessagesComeThroughWhole) {
  KeeperHello hello;
  hello.job_id = 5;
  hello.keeper = {10, 20};
  hello.cgroup = "/sys/fs/cgroup/x";
  hello.phase = KeeperPhase::kWaiting;
  hello.run = 2;
  hello.process = base::ProcessId{11, 21};
  hello.last_seq = 8;
  hello.shortens = true;
  const auto back = std::get<KeeperHello>(ParseKeeperMessage(SerializeMessage(KeeperMessage(hello))).value());
  EXPECT_EQ(back.keeper, hello.keeper);
  EXPECT_EQ(back.process, hello.process);
  EXPECT_EQ(back.phase, hello.phase);
  EXPECT_EQ(back.last_seq, 8u);
  EXPECT_TRUE(back.shortens);

  const JournalRecord record{4, base::WallTime(base::Millis{5}), base::Millis{6}, JobEnded{1, "finished"}};
  EXPECT_EQ(std::get<JournalRecord>(ParseKeeperMessage(SerializeMessage(KeeperMessage(record))).value()),
            record);

  const Reply reply{3, base::Error{base::ErrorCode::kConflict, "no", "hint"}};
  const auto answer = std::get<Reply>(ParseKeeperMessage(SerializeMessage(KeeperMessage(reply))).value());
  EXPECT_EQ(answer.id, 3u);
  EXPECT_EQ(answer.error->code, base::ErrorCode::kConflict);
  EXPECT_EQ(answer.error->message, "no");
}

TEST(Protocol, RefusesBadPacketsWithAWord) {
  for (const char* packet :
       {"", "{", "[]", "3", "{\"m\":3}", "{\"m\":\"stop\"}", "{\"m\":\"stop\",\"id\":-1}",
        "{\"m\":\"stop\",\"id\":1,\"signal\":0}", "{\"m\":\"stop\",\"id\":1,\"grace_ms\":-1}",
        "{\"m\":\"signal\",\"id\":1,\"signal\":65}", "{\"m\":\"reason\",\"id\":1}",
        "{\"m\":\"update\",\"id\":1,\"restart\":{\"mode\":\"x\"}}",
        "{\"m\":\"update\",\"id\":1,\"stop_grace_ms\":-2}", "{\"m\":\"note\",\"id\":1}", "{\"m\":\"hello\"}"})
    EXPECT_FALSE(ParseClientMessage(packet)) << packet;
  EXPECT_EQ(ParseClientMessage(R"({"m":"dance","id":4})").error().code, base::ErrorCode::kNotSupported);
  EXPECT_EQ(MessageId(R"({"m":"dance","id":4})"), 4u);
  EXPECT_EQ(MessageId("no"), 0u);
}

RC_GTEST_PROP(Protocol, ParsersSurviveAnyPacket, (const std::string& packet)) {
  (void)ParseClientMessage(packet).has_value();
  (void)ParseKeeperMessage(packet).has_value();
  (void)ParseSettings(packet).has_value();
}

}  // namespace
}  // namespace gpuman::keeper
