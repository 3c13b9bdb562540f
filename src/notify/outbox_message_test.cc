#include "notify/outbox_message.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpuman::notify {
namespace {

TEST(WordOf, IsWhatPeopleAskForOfANotice) {
  const std::pair<const char*, std::optional<std::string_view>> table[] = {
      {"job_started", "started"},       {"job_restarted", "started"},
      {"job_finished", "finished"},     {"job_failed", "failed"},
      {"job_killed", "killed"},         {"job_timeout", "timeout"},
      {"job_cancelled", "cancelled"},   {"job_suspended", "suspended"},
      {"job_requeued", "requeued"},     {"job_held", std::nullopt},
      {"job_restarting", std::nullopt}, {"keeper_lost", std::nullopt},
      {"finished", std::nullopt},       {"", std::nullopt},
  };
  for (const auto& [notice, word] : table) EXPECT_EQ(WordOf(notice), word) << notice;
}

TEST(IsWanted, EachEndWhereNothingIsSaidAndElseWhatIs) {
  for (const char* const end : {"finished", "failed", "timeout", "cancelled", "killed"})
    EXPECT_TRUE(IsWanted({}, end));
  for (const char* const other : {"started", "suspended", "requeued"}) EXPECT_FALSE(IsWanted({}, other));
  EXPECT_TRUE(IsWanted({"started", "failed"}, "started"));
  EXPECT_FALSE(IsWanted({"started", "failed"}, "finished"));
  EXPECT_TRUE(IsWanted({"all"}, "started"));
}

OutboxMessage Full() {
  OutboxMessage message;
  message.number = 7;
  message.delivery = "d";
  message.user = "ann";
  message.job = 3;
  message.channel = ChannelKind::kMail;
  message.target = "a@b";
  message.event = "failed";
  message.content = "Subject: x\r\n\r\ny\r\n";
  message.made = base::WallTime(base::Millis(1000));
  message.attempts = 2;
  message.next = base::WallTime(base::Millis(5000));
  message.failed = true;
  message.problem = "no";
  return message;
}

TEST(OutboxMessage, IsReadAsItWasWritten) {
  EXPECT_EQ(ParseMessage(7, SerializeMessage(Full())), Full());
  OutboxMessage plain;
  EXPECT_EQ(ParseMessage(0, SerializeMessage(plain)), plain);
}

TEST(OutboxMessage, OfAnotherVersionOrDamagedIsNotRead) {
  auto json = nlohmann::json::parse(SerializeMessage(Full()));
  for (const char* const name :
       {"delivery", "user", "channel", "target", "content", "made_ms", "failed", "v"}) {
    auto without = json;
    without.erase(name);
    EXPECT_FALSE(ParseMessage(1, without.dump())) << name;
  }
  json["v"] = 2;
  EXPECT_FALSE(ParseMessage(1, json.dump()));
  EXPECT_FALSE(ParseMessage(1, ""));
  EXPECT_FALSE(ParseMessage(1, "[]"));
}

Notification OfAJob() {
  Notification notification;
  notification.event = "failed";
  notification.message = "ended with exit status 3";
  notification.host = "box";
  notification.at = base::WallTime(base::Millis(1'700'000'000'000));
  notification.job = 7;
  notification.name = "train";
  notification.user = "ann";
  notification.state = "failed";
  notification.exit_code = 3;
  notification.gpus = {"GPU-a"};
  notification.submitted = notification.at;
  return notification;
}

TEST(Body, SaysWhatHappenedToWhichJob) {
  const auto body = nlohmann::json::parse(BodyOf(OfAJob(), "id1"));
  EXPECT_EQ(body["delivery"], "id1");
  EXPECT_EQ(body["event"], "failed");
  EXPECT_EQ(body["at"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(body["job"]["id"], 7);
  EXPECT_EQ(body["job"]["exit_code"], 3);
  EXPECT_TRUE(body["job"]["signal"].is_null());
  EXPECT_TRUE(body["job"]["started_at"].is_null());
  EXPECT_EQ(body["job"]["gpus"][0], "GPU-a");
  EXPECT_EQ(body["notes"], nlohmann::json::array());
  Notification noted = OfAJob();
  noted.notes = {"its limit was 3GiB", "it has no cgroup"};
  EXPECT_EQ(nlohmann::json::parse(BodyOf(noted, "id1"))["notes"], noted.notes);
}

TEST(Body, OfAnEventHasWhatTheEventHas) {
  Notification notification;
  notification.event = "gpu_lost";
  notification.gpus = {"GPU-a"};
  auto body = nlohmann::json::parse(BodyOf(notification, "x"));
  EXPECT_EQ(body["gpu"], "GPU-a");
  EXPECT_FALSE(body.contains("job"));
  EXPECT_FALSE(body.contains("notes"));
  notification.job = 3;
  notification.name = "train";
  body = nlohmann::json::parse(BodyOf(notification, "x"));
  EXPECT_EQ(body["job"], (nlohmann::json{{"id", 3}, {"name", "train"}}));
}

TEST(Body, IsShortAndValidWhateverTheJobIsCalled) {
  Notification notification = OfAJob();
  notification.message = std::string(100'000, 'x');
  notification.notes.assign(100, std::string(1000, 'x'));
  notification.name = "\xff\xfe\"\n";
  for (int i = 0; i < 5000; ++i) notification.project += "\xc3\xa4";
  const std::string text = BodyOf(notification, "id");
  EXPECT_LT(text.size(), 8192U);
  EXPECT_TRUE(nlohmann::json::accept(text));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace gpuman::notify
