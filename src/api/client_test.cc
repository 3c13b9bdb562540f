#include "api/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/ask.h"
#include "api/event_stream.h"
#include "api/json.h"
#include "api/queue_types.h"
#include "api/test_server.h"

namespace gpuman::api {
namespace {

using base::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kJob = R"({"id":7,"tag":"t","state":"running"})";

TEST(Client, RequestIsSentAndAnswerIsDecoded) {
  const TestServer server({TestServer::Answer(201, kJob)});
  RunRequest request;
  request.tag = "t";
  request.command = {"x", "y z"};
  const auto job = Ask(Client(server.socket()), routes::kRun, {}, request);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->id, 7);
  const auto asked = server.requests().at(0);
  EXPECT_THAT(asked, StartsWith("POST /v1/jobs HTTP/1.1\r\n"));
  const auto body = Decode<RunRequest>(asked.substr(asked.find("\r\n\r\n") + 4));
  ASSERT_TRUE(body);
  EXPECT_THAT(body->command, ElementsAre("x", "y z"));
}

TEST(Client, PutsEachCallAtItsPlace) {
  const TestServer server({TestServer::Answer(200, kJob)});
  const Client client(server.socket());
  EXPECT_TRUE(client.Job("a b/?"));
  EXPECT_TRUE(client.Restart("t", {}));
  EXPECT_TRUE(Ask(client, routes::kRemoveJob, {{"t"}}));
  EXPECT_TRUE(Ask(client, routes::kRemoveJob, {{"t"}, Query().AddFlag("keep_running", true)}));
  EXPECT_TRUE(client.Wait("7"));
  EXPECT_TRUE(client.Log("t", {true, 5, 100}, [](std::string_view) { return true; }));
  const auto asked = server.requests();
  EXPECT_THAT(asked,
              ElementsAre(StartsWith("GET /v1/jobs/a%20b%2F%3F "), StartsWith("POST /v1/jobs/t/restart "),
                          StartsWith("DELETE /v1/jobs/t "), StartsWith("DELETE /v1/jobs/t?keep_running=1 "),
                          StartsWith("GET /v1/jobs/7/wait "),
                          StartsWith("GET /v1/jobs/t/log?follow=1&tail=5&offset=100 ")));
}

TEST(Client, PassesTheDaemonsErrorsOn) {
  const TestServer server({TestServer::Answer(
      404, R"({"error":{"code":"not_found","message":"no job 'x'","hint":"see status"}})")});
  const auto job = Client(server.socket()).Job("x");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(job.error().message, "no job 'x'");
  EXPECT_EQ(job.error().hint, "see status");
}

struct BadAnswer {
  const char* name;
  std::string bytes;
  ErrorCode code;
};

TEST(Client, NamesWhatIsWrongWithABadAnswer) {
  const auto whole = TestServer::Answer(200, kJob);
  for (const auto& [name, bytes, code] : std::vector<BadAnswer>{
           {"closed at once", "", ErrorCode::kUnavailable},
           {"cut in the status line", "HTTP/1.1 20", ErrorCode::kUnavailable},
           {"cut in the headers", whole.substr(0, 30), ErrorCode::kUnavailable},
           {"cut in the body", whole.substr(0, whole.size() - 5), ErrorCode::kUnavailable},
           {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", ErrorCode::kInternal},
           {"not JSON", TestServer::Answer(200, "<html>"), ErrorCode::kInternal},
           {"another shape", TestServer::Answer(200, R"({"id":"seven"})"), ErrorCode::kInternal},
           {"empty", TestServer::Answer(200, ""), ErrorCode::kInternal},
           {"an error without words", TestServer::Answer(503, ""), ErrorCode::kUnavailable},
       }) {
    const TestServer server({bytes});
    const auto job = Client(server.socket()).Job("t");
    ASSERT_FALSE(job) << name;
    EXPECT_EQ(job.error().code, code) << name << ": " << job.error().message;
    EXPECT_FALSE(job.error().message.empty()) << name;
  }
}

TEST(Exchange, GivesUpOnSilence) {
  const TestServer server({""}, /*hold=*/true);
  HttpOptions options;
  options.patience = base::Millis(10);
  const auto answer = Exchange(server.socket(), {"GET", "/", {}}, options);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
}

TEST(Exchange, CanBeWokenFromALongWait) {
  const TestServer server({""}, /*hold=*/true);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  HttpOptions options;
  options.patience.reset();
  options.wake_fd = pipe[0];
  int woken = 0;
  options.on_wake = [&] {
    ++woken;
    return woken < 2;
  };
  const auto answer = Exchange(server.socket(), {"GET", "/", {}}, options);
  ::close(pipe[0]);
  ::close(pipe[1]);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kConflict);
  EXPECT_EQ(woken, 2);
}

TEST(Exchange, SaysThatNothingServesThere) {
  const base::TempDir directory;
  for (const auto& path : {directory.path() / "nothing", directory.path() / "no/such/directory"}) {
    const auto answer = Exchange(path, {"GET", "/", {}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(answer.error().message, HasSubstr(path.string()));
  }
  EXPECT_EQ(Exchange("/" + std::string(200, 'x'), {"GET", "/", {}}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Exchange, ReadsAChunkedBodyThroughASink) {
  const TestServer server(
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"});
  std::string text;
  ASSERT_TRUE(Client(server.socket()).Log("t", {}, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  EXPECT_EQ(text, "hello, world");
}

TEST(Exchange, ReportsAStreamThatBreaksOff) {
  const TestServer server({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"});
  std::string text;
  const auto result = Client(server.socket()).Log("t", {}, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  EXPECT_EQ(text, "hel");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
}

TEST(Exchange, ShowsARefusalInsteadOfStreamingIt) {
  const TestServer server({TestServer::Answer(404, R"({"error":{"code":"not_found","message":"no"}})")});
  bool streamed = false;
  const auto result = Client(server.socket()).Log("t", {}, [&](std::string_view) { return streamed = true; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no");
  EXPECT_FALSE(streamed);
}

TEST(FollowEvents, HandsOutEachEventAndStopsWhenToldTo) {
  const std::string event = R"({"id":ID,"at":"2026-11-21T00:00:00.000Z","kind":"job_started","message":"m"})";
  std::string body;
  for (const char* id : {"1", "2", "3"}) {
    auto data = event;
    data.replace(data.find("ID"), 2, id);
    body += "id: " + std::string(id) + "\nevent: job_started\ndata: " + data + "\n\n";
  }
  const TestServer server({TestServer::Answer(200, body, "text/event-stream")});
  std::vector<std::int64_t> ids;
  ASSERT_TRUE(Client(server.socket()).FollowEvents({0, {}, {}}, [&](const EventView& e) {
    ids.push_back(e.id);
    return ids.size() < 2;
  }));
  EXPECT_THAT(ids, ElementsAre(1, 2));
  EXPECT_THAT(server.requests().at(0), StartsWith("GET /v1/events?follow=1&since=0 "));
}

TEST(FollowEvents, RefusesAnEventItCannotRead) {
  const TestServer server({TestServer::Answer(200, "data: {}\n\n", "text/event-stream")});
  const auto result = Client(server.socket()).FollowEvents({}, [](const EventView&) { return true; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInternal);
}

TEST(EventStreamReader, TakesAnyCutAndAnyLineEnd) {
  const std::string text =
      ": hello\nid: 1\ndata: a\n\ndata:b\r\ndata: c\r\n\r\nevent: x\n\ndata\n\ndata: cut off";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    EventStreamReader reader;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < text.size(); at += step)
      for (auto& event : reader.Feed(std::string_view(text).substr(at, step)))
        events.push_back(std::move(event));
    EXPECT_THAT(events, ElementsAre("a", "b\nc", "")) << "cut every " << step;
  }
}

TEST(PercentEncode, LeavesOnlyWhatIsUnreserved) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("a/b?c=d&e %\xC3\xA9"), "a%2Fb%3Fc%3Dd%26e%20%25%C3%A9");
}

}  // namespace
}  // namespace gpuman::api
