#include "notify/message.h"

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
}

Message Full() {
  Message message;
  message.number = 7;
  message.delivery = "d";
  message.user = "ann";
  message.job = 3;
  message.channel = Channel::kMail;
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

TEST(Message, IsReadAsItWasWritten) {
  EXPECT_EQ(ParseMessage(7, SerializeMessage(Full())), Full());
  Message plain;
  EXPECT_EQ(ParseMessage(0, SerializeMessage(plain)), plain);
}

TEST(Message, OfAnotherVersionOrDamagedIsNotRead) {
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

News OfAJob() {
  News news;
  news.event = "failed";
  news.message = "ended with exit status 3";
  news.host = "box";
  news.at = base::WallTime(base::Millis(1'700'000'000'000));
  news.job = 7;
  news.name = "train";
  news.user = "ann";
  news.state = "failed";
  news.exit_code = 3;
  news.gpus = {"GPU-a"};
  news.submitted = news.at;
  return news;
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
}

TEST(Body, OfAnEventHasWhatTheEventHas) {
  News news;
  news.event = "gpu_lost";
  news.gpus = {"GPU-a"};
  auto body = nlohmann::json::parse(BodyOf(news, "x"));
  EXPECT_EQ(body["gpu"], "GPU-a");
  EXPECT_FALSE(body.contains("job"));
  news.job = 3;
  news.name = "train";
  body = nlohmann::json::parse(BodyOf(news, "x"));
  EXPECT_EQ(body["job"], (nlohmann::json{{"id", 3}, {"name", "train"}}));
}

TEST(Body, IsShortAndValidWhateverTheJobIsCalled) {
  News news = OfAJob();
  news.message = std::string(100'000, 'x');
  news.name = "\xff\xfe\"\n";
  for (int i = 0; i < 5000; ++i) news.project += "\xc3\xa4";
  const std::string text = BodyOf(news, "id");
  EXPECT_LT(text.size(), 8192U);
  EXPECT_TRUE(nlohmann::json::accept(text));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace gpuman::notify
