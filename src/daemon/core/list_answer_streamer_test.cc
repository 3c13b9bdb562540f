#include "daemon/core/list_answer_streamer.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpuman::daemon {
namespace {

class StillClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return {}; }
  base::WallTime Wall() const override { return {}; }
};

// A client that takes the data sent to it only when the test tells it to.
class Client final : public http::Exchange {
 public:
  explicit Client(http::Party party) {
    request_.party = party;
    request_.peer.uid = http::kNobody;  // as of all who come over TCP
  }
  const http::Request& request() const override { return request_; }
  void Send(http::Response) override {}
  void BeginStream(std::string_view, std::string_view) override { began = true; }
  void Write(std::string data) override {
    text += data, unsent += data.size();
    largest = std::max(largest, data.size());
  }
  void EndStream() override { ended = true; }
  std::size_t Unsent() const override { return unsent; }
  void WhenSent(std::function<void()> sent) override { sent_ = std::move(sent); }
  void OnGone(std::function<void()> gone) override { gone_ = std::move(gone); }
  void Take() {
    unsent = 0;
    if (const auto sent = std::exchange(sent_, nullptr)) sent();
  }
  void Go() {
    sent_ = nullptr;
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
  }

  std::string text;
  std::size_t unsent = 0, largest = 0;  // `largest`: of what was written at once
  bool began = false, ended = false;

 private:
  http::Request request_;
  std::function<void()> sent_, gone_;
};

class ListAnswerStreamerTest : public testing::Test {
 protected:
  void Run() {
    while (!posted.empty()) {
      const auto next = std::move(posted.front());
      posted.pop_front();
      next();
    }
  }
  // A new client asks for a list of so many lines of 1 KiB.
  std::shared_ptr<Client> Ask(http::Party party, int lines) {
    auto client = std::make_shared<Client>(party);
    lists.Answer(client, "text/plain", [this, lines](const auto& then) {
      then([left = lines, alive = alive](std::string& text) mutable {
        text += std::string(1023, 'x') + '\n';
        return --left > 0;
      });
    });
    return client;
  }

  std::deque<std::function<void()>> posted;
  StillClock clock;
  base::SlicedWork work{[this](std::function<void()> act) { posted.push_back(std::move(act)); }, clock};
  ListAnswerStreamer lists{work};
  std::shared_ptr<int> alive = std::make_shared<int>();  // counts sources
};

TEST_F(ListAnswerStreamerTest, AListComesWholeInPieces) {
  const auto client = Ask(1001, 100);
  Run();
  EXPECT_EQ(client->text.size(), 100u << 10);
  EXPECT_TRUE(client->ended);
}

TEST_F(ListAnswerStreamerTest, NoMoreIsMadeThanTheClientTakes) {
  const auto client = Ask(1001, 10'000);
  Run();
  EXPECT_LE(client->text.size(), ListAnswerStreamer::kAhead + ListAnswerStreamer::kPiece + 1024);
  EXPECT_FALSE(client->ended);
  while (!client->ended) {
    const auto before = client->text.size();
    client->Take();
    Run();
    ASSERT_GT(client->text.size(), before);
  }
  EXPECT_EQ(client->text.size(), 10'000u << 10);
}

TEST_F(ListAnswerStreamerTest, WhatIsLongComesInPiecesToo) {
  constexpr std::size_t kLong = (30u << 20) + 7;
  std::string whole;
  const auto client = std::make_shared<Client>(1001);
  lists.Answer(client, "text/plain", [&](const auto& then) {
    then([left = 3, &whole](std::string& text) mutable {
      const auto part = left == 2 ? std::string(kLong, 'l') : "short" + std::to_string(left);
      whole += part;
      text += part;
      return --left > 0;
    });
  });
  Run();
  while (!client->ended) {
    ASSERT_LE(client->unsent, ListAnswerStreamer::kAhead + ListAnswerStreamer::kPiece);
    client->Take();
    Run();
  }
  EXPECT_LE(client->largest, ListAnswerStreamer::kPiece);
  EXPECT_EQ(client->text.size(), whole.size());
  EXPECT_TRUE(client->text == whole);
}

TEST_F(ListAnswerStreamerTest, ARequestOfAClosedConnectionIsDroppedAtOnce) {
  const auto waits = Ask(1001, 10'000);
  Run();
  ASSERT_EQ(alive.use_count(), 2);
  waits->Go();
  EXPECT_EQ(alive.use_count(), 1);
  const auto at_work = Ask(1001, 10'000);
  at_work->Go();
  Run();
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(at_work->text, "");
}

TEST_F(ListAnswerStreamerTest, APartyHasAFewAtATimeAndOthersWaitForNone) {
  std::vector<std::shared_ptr<Client>> many;
  many.reserve(10);
  for (int i = 0; i < 10; ++i) many.push_back(Ask(1001, 10'000));
  const auto neighbour = Ask(1002, 10);
  Run();
  EXPECT_TRUE(neighbour->ended);
  const auto began = [&] {
    return static_cast<std::size_t>(
        std::count_if(many.begin(), many.end(), [](const auto& client) { return client->began; }));
  };
  EXPECT_EQ(began(), ListAnswerStreamer::kOfParty);
  many.back()->Go();  // its list still waits
  many.front()->Go();
  Run();
  EXPECT_EQ(began(), ListAnswerStreamer::kOfParty + 1) << "the next one's turn";
  for (int round = 0; round < 1000; ++round) {
    for (const auto& client : many) client->Take();
    Run();
  }
  EXPECT_EQ(std::count_if(many.begin(), many.end(), [](const auto& client) { return client->ended; }), 8);
}

}  // namespace
}  // namespace gpuman::daemon
