#include "daemon/http/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <future>
#include <thread>

#include "base/test_slow_closing_socket.h"
#include "base/test_temp_dir.h"
#include "daemon/http/body_budget.h"
#include "daemon/http/large_bodies.h"

namespace gpuman::daemon::http {
namespace {

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

class ServerTest : public testing::Test {
 protected:
  void Start(ServerLimits limits, Handler handler, Headers headers = {}) {
    base::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = Address(path());
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener.get(), 128), 0);
    server_ = std::make_unique<Server>(loop_, std::move(listener), std::move(limits), std::move(handler),
                                       std::move(headers));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerTest() override {
    boost::asio::post(loop_, [this] { server_.reset(); });
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }
  // Calls `act` while the loop does nothing, and returns its result.
  template <typename Act>
  auto WhileTheLoopRests(Act act) {
    std::promise<void> resting, over;
    boost::asio::post(loop_, [&resting, end = over.get_future().share()] {
      resting.set_value();
      end.wait();
    });
    resting.get_future().wait();
    const auto result = act();
    over.set_value();
    return result;
  }
  std::string path() const { return (dir_.path() / "s").string(); }

  base::Fd Connect() {
    base::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = Address(path());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void Send(const base::Fd& fd, std::string_view data) {
    while (!data.empty()) {
      const ssize_t n = ::send(fd.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // refused in the middle: the answer tells
      data.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // Reads until the server closes or `mark` has come.
  static std::string Receive(const base::Fd& fd, std::string_view mark = "(never sent)") {
    std::string data;
    char buffer[4096];
    while (data.find(mark) == std::string::npos) {
      const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (n <= 0) break;
      data.append(buffer, static_cast<std::size_t>(n));
    }
    return data;
  }

  base::TempDir dir_;
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{loop_.get_executor()};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

void Echo(const ExchangePtr& exchange) {
  const auto& r = exchange->request();
  exchange->Send({200, r.method + " " + r.path + " uid " + std::to_string(r.peer.uid) + " [" + r.body + "]",
                  "text/plain"});
}

TEST_F(ServerTest, AnswersSeveralRequestsOfOneConnectionAndNamesThePeer) {
  Start({}, Echo);
  const auto fd = Connect();
  const std::string who = " uid " + std::to_string(::getuid());
  Send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(Receive(fd, "[]").find("GET /a" + who + " []"), std::string::npos);
  Send(fd, "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
  EXPECT_NE(Receive(fd).find("POST /b" + who + " [hi]"), std::string::npos);
}

TEST_F(ServerTest, ARequestCountsForTheUserAtItsOtherEnd) {
  Start({}, [](const ExchangePtr& exchange) {
    exchange->Send({200, "party " + std::to_string(exchange->request().party) + ";", "text/plain"});
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(Receive(fd, ";").find("party " + std::to_string(PartyOf(::getuid())) + ";"), std::string::npos);
}

TEST_F(ServerTest, HandsOnTheHeadersThatSayWhoAsksAndNoneThatIsThereTwice) {
  Start({}, [](const ExchangePtr& exchange) {
    const auto& r = exchange->request();
    exchange->Send(
        {200, r.host + "|" + r.origin + "|" + r.fetch_site + "|" + r.authorization + "|", "text/plain"});
  });
  const auto fd = Connect();
  Send(fd,
       "GET / HTTP/1.1\r\nHost: h:1\r\nOrigin: http://o\r\nSec-Fetch-Site: same-site\r\nAuthorization: "
       "Bearer x\r\n\r\n");
  EXPECT_NE(Receive(fd, "x|").find("h:1|http://o|same-site|Bearer x|"), std::string::npos);
  Send(fd, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization: b\r\nConnection: close\r\n\r\n");
  EXPECT_NE(Receive(fd).find("\r\n\r\nh||||"), std::string::npos);
}

TEST_F(ServerTest, EveryAnswerHasTheHeadersOfTheServer) {
  Start({},
        [](const ExchangePtr& exchange) {
          if (exchange->request().path == "/whole")
            return exchange->Send({200, "w", "text/plain", {{"X-Own", "yes"}}});
          exchange->BeginStream("text/plain");
          exchange->Write("s");
          exchange->EndStream();
        },
        {{"X-Server", "one"}, {"X-Other", "two"}});
  for (const std::string what : {"GET /whole", "GET /stream", "nonsense"}) {
    const auto fd = Connect();
    Send(fd, what + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    const auto answer = Receive(fd);
    EXPECT_NE(answer.find("\r\nX-Server: one\r\n"), std::string::npos) << answer;
    EXPECT_NE(answer.find("\r\nX-Other: two\r\n"), std::string::npos) << answer;
    EXPECT_EQ(answer.find("\r\nX-Own: yes\r\n") != std::string::npos, what == "GET /whole") << answer;
  }
}

TEST_F(ServerTest, ANoteIsALineOfTheHeadAndNeverMore) {
  Start({}, [](const ExchangePtr& exchange) {
    exchange->Note("2 jobs are called 'x'");
    exchange->Note("a\r\nEvil: b");
    if (exchange->request().path == "/whole") return exchange->Send({200, "body", "text/plain"});
    exchange->BeginStream("text/plain", "Own: line");
    exchange->EndStream();
  });
  for (const char* const path : {"/whole", "/stream"}) {
    const auto fd = Connect();
    Send(fd, std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const auto answer = Receive(fd);
    EXPECT_NE(answer.find("\r\nGpuman-Note: 2 jobs are called 'x'\r\n"), std::string::npos) << answer;
    EXPECT_NE(answer.find("\r\nGpuman-Note: a??Evil: b\r\n"), std::string::npos) << answer;
  }
}

TEST_F(ServerTest, NotesAreFewHoweverManyNamesARequestHas) {
  Start({}, [](const ExchangePtr& exchange) {
    for (int i = 0; i < 10'000; ++i) exchange->Note("note " + std::to_string(i / 2) + std::string(1000, 'x'));
    exchange->Send({200, "body", "text/plain"});
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const auto answer = Receive(fd);
  EXPECT_NE(answer.find("note 7x"), std::string::npos);
  EXPECT_EQ(answer.find("note 8x"), std::string::npos);
  EXPECT_LT(answer.size(), 6000u);
}

TEST(TcpServer, AnswersAndKnowsThePeerAsNobody) {
  boost::asio::io_context loop;
  base::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Server server(loop, std::move(listener), {}, Echo);
  const base::Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  const std::string request = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = -1; n != 0;) {
    loop.run_one_for(std::chrono::milliseconds(10));
    n = ::recv(client.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) answer.append(buffer, static_cast<std::size_t>(n));
  }
  EXPECT_NE(answer.find("GET /a uid 65534 []"), std::string::npos) << answer;
}

TEST_F(ServerTest, RefusesWhatIsTooLargeOrNoHttp) {
  Start({.header_bytes = 1024, .body_bytes = 100}, Echo);
  const auto ask = [&](const std::string& data) {
    const auto fd = Connect();
    Send(fd, data);
    return Receive(fd).substr(0, 12);
  };
  EXPECT_EQ(ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
            "HTTP/1.1 400");
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"), "HTTP/1.1 431");
  EXPECT_EQ(ask("\x16\x03\x01 hello\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(ask("GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 400");
}

TEST_F(ServerTest, LargeBodyIsTakenOnItsPathOnly) {
  Start({.body_bytes = 100, .large_path = "/large", .large_body_bytes = 1000}, Echo);
  const auto ask = [&](const std::string& path, std::size_t size) {
    const auto fd = Connect();
    Send(fd, "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(size) +
                 "\r\nConnection: close\r\n\r\n" + std::string(size, 'x'));
    return Receive(fd).substr(0, 12);
  };
  EXPECT_EQ(ask("/large", 1000), "HTTP/1.1 200");
  EXPECT_EQ(ask("/large?a=b", 101), "HTTP/1.1 200");
  EXPECT_EQ(ask("/large", 1001), "HTTP/1.1 413");
  EXPECT_EQ(ask("/larger", 101), "HTTP/1.1 413");
  const auto fd = Connect();  // does not say how much comes
  Send(fd, "POST /large HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n80\r\n" +
               std::string(0x80, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(Receive(fd).substr(0, 12), "HTTP/1.1 413");
}

TEST_F(ServerTest, OneLargeBodyIsReadAtATime) {
  Start({.body_bytes = 100, .large_path = "/", .large_body_bytes = 1000, .request = std::chrono::hours(1)},
        Echo);
  const std::string request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n";
  const auto whole = [&] {
    const auto fd = Connect();
    Send(fd, request + std::string(200, 'x'));
    return Receive(fd, "\r\n\r\n").substr(0, 12);
  };
  auto first = Connect();
  Send(first, request + std::string(10, 'x'));
  while (whole() != "HTTP/1.1 503") {
  }
  const auto small = Connect();
  Send(small, "GET /small HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(Receive(small, "[]").find("GET /small"), std::string::npos);
  Send(first, std::string(190, 'x'));
  EXPECT_EQ(Receive(first, "\r\n\r\n").substr(0, 12), "HTTP/1.1 200");
  while (whole() != "HTTP/1.1 200") {
  }
  // A client that goes away in the middle of its body does not block other clients.
  first = Connect();
  Send(first, request + std::string(10, 'x'));
  while (whole() != "HTTP/1.1 503") {
  }
  first.Close();
  while (whole() != "HTTP/1.1 200") {
  }
}

TEST(LargeBodies, EachUserGetsOneAndAllUsersGetTheMaximum) {
  LargeBodies large(2);
  EXPECT_TRUE(large.Take(1001, false));
  EXPECT_FALSE(large.Take(1001, false)) << "one at a time";
  EXPECT_TRUE(large.Take(1002, false));
  EXPECT_FALSE(large.Take(1003, false)) << "as many as there is memory for";
  EXPECT_TRUE(large.Take(1004, true)) << "who goes first waits for none of them";
  EXPECT_TRUE(large.Take(0, true));
  EXPECT_FALSE(large.Take(0, true)) << "but for themselves";
  large.Give(1002);
  EXPECT_TRUE(large.Take(1003, false)) << "who goes first is in nobody's way";
  large.Give(0);
  EXPECT_TRUE(large.Take(0, true));
}

TEST(BodyBudget, UserGetsNoMoreThanHalfOfRemainingBudget) {
  BodyBudget bodies(16, 32);
  EXPECT_TRUE(bodies.Take(1001, 16));
  EXPECT_FALSE(bodies.Take(1001, 1)) << "a user's bound";
  EXPECT_FALSE(bodies.Take(1002, 9)) << "more than would be left";
  EXPECT_TRUE(bodies.Take(1002, 8));
  EXPECT_TRUE(bodies.Take(1003, 4)) << "there is always some left for who comes";
  bodies.Give(1001, 16);
  EXPECT_TRUE(bodies.Take(1003, 6));
  bodies.Give(1002, 8);
  bodies.Give(1003, 10);
  EXPECT_TRUE(bodies.Take(1001, 16));
  EXPECT_FALSE(bodies.Take(1002, SIZE_MAX));
}

TEST_F(ServerTest, HalfSentBodiesOfAUserHaveABound) {
  constexpr std::size_t kBody = 100u << 10;
  Start({.body_bytes = kBody,
         .bodies_of_user = 2 * kBody,
         .bodies_of_all = 100 * kBody,
         .request = std::chrono::hours(1)},
        Echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
  const std::string known = head + "Content-Length: " + std::to_string(kBody) + "\r\n\r\n";
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  for (const auto& request : {known, chunked}) {
    std::vector<base::Fd> half;
    for (int i = 0; i < 2; ++i) {
      half.push_back(Connect());
      Send(half.back(), request);
    }
    const auto answer = [&](const std::string& whole) {
      const auto fd = Connect();
      Send(fd, whole);
      return Receive(fd).substr(0, 12);
    };
    while (answer(known + std::string(kBody, 'x')) != "HTTP/1.1 503") {
    }
    EXPECT_EQ(answer(head + "Content-Length: 4\r\n\r\nbody"), "HTTP/1.1 200") << "a small one always goes";
    half.clear();  // the client goes away in the middle, and must not block others
    while (answer(known + std::string(kBody, 'x')) != "HTTP/1.1 200") {
    }
  }
}

// A client may send a body and go away, and a handler may have the body for long after that.
TEST_F(ServerTest, ABodyCountsUntilItsHandlerLetsGoThoughItsClientHasGone) {
  constexpr std::size_t kBody = 100u << 10;
  std::vector<ExchangePtr> kept;  // the loop's
  std::promise<void> all_there, all_gone;
  int gone = 0;
  Start({.body_bytes = kBody,
         .large_path = "/large",
         .large_body_bytes = 2 * kBody,
         .bodies_of_user = 2 * kBody,
         .bodies_of_all = 100 * kBody},
        [&](const ExchangePtr& exchange) {
          if (!exchange->request().Query("keep")) return exchange->Send({200, "done", "text/plain"});
          kept.push_back(exchange);
          exchange->OnGone([&] {
            if (++gone == 3) all_gone.set_value();
          });
          if (kept.size() == 3) all_there.set_value();
        });
  const auto request = [](const std::string& target, std::size_t size) {
    return "POST " + target +
           " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + std::to_string(size) +
           "\r\n\r\n" + std::string(size, 'x');
  };
  const auto answer = [&](const std::string& target, std::size_t size) {
    const auto fd = Connect();
    Send(fd, request(target, size));
    return Receive(fd).substr(0, 12);
  };
  std::vector<base::Fd> clients;
  for (const auto& [target, size] :
       {std::pair("/?keep", kBody), std::pair("/?keep", kBody), std::pair("/large?keep", 2 * kBody)}) {
    clients.push_back(Connect());
    Send(clients.back(), request(target, size));
  }
  all_there.get_future().wait();
  clients.clear();
  all_gone.get_future().wait();
  EXPECT_EQ(answer("/", kBody), "HTTP/1.1 503");
  EXPECT_EQ(answer("/large", 2 * kBody), "HTTP/1.1 503");
  EXPECT_EQ(answer("/", 4), "HTTP/1.1 200") << "a small one always goes";
  WhileTheLoopRests([&] {
    for (const auto& exchange : kept) EXPECT_TRUE(exchange->Gone());
    std::erase_if(kept, [](const auto& exchange) { return exchange->request().path == "/large"; });
    return 0;
  });
  EXPECT_EQ(answer("/", kBody), "HTTP/1.1 503");
  EXPECT_EQ(answer("/large", 2 * kBody), "HTTP/1.1 200");
  WhileTheLoopRests([&] {
    kept.clear();
    return 0;
  });
  EXPECT_EQ(answer("/", kBody), "HTTP/1.1 200");
}

TEST_F(ServerTest, AnAnswerLetsGoOfTheBodyThoughItsHandlerKeepsTheExchange) {
  constexpr std::size_t kBody = 100u << 10;
  std::vector<ExchangePtr> kept;  // the loop's
  Start({.body_bytes = kBody, .bodies_of_user = kBody, .bodies_of_all = 100 * kBody},
        [&](const ExchangePtr& exchange) {
          kept.push_back(exchange);
          exchange->Send({200, "done", "text/plain"});
        });
  const auto fd = Connect();
  for (int i = 0; i < 3; ++i) {
    Send(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kBody) + "\r\n\r\n" +
                 std::string(kBody, 'x'));
    EXPECT_EQ(Receive(fd, "done").substr(0, 12), "HTTP/1.1 200");
  }
}

TEST_F(ServerTest, AWriterIsToldWhenItsDataWereSent) {
  std::atomic<int> pieces = 0;
  Start({.unsent_bytes = 1u << 20}, [&](const ExchangePtr& exchange) {
    exchange->BeginStream("text/plain");
    // Ten times as much as may wait to be sent.
    const auto write = std::make_shared<std::function<void()>>();
    *write = [&pieces, exchange, weak = std::weak_ptr(write)] {
      exchange->Write(std::string(1u << 19, 'x'));
      if (++pieces == 20) return exchange->EndStream();
      exchange->WhenSent([again = weak.lock()] { (*again)(); });
    };
    (*write)();
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  std::size_t size = 0;
  std::vector<char> buffer(1u << 20);
  for (ssize_t n = 1; n > 0; size += static_cast<std::size_t>(n))
    n = std::max<ssize_t>(0, ::recv(fd.get(), buffer.data(), buffer.size(), 0));
  EXPECT_GT(size, 20u << 19);
  EXPECT_EQ(pieces, 20);
}

TEST_F(ServerTest, UnreadDataOfAUserAreBoundedOverAllConnections) {
  std::promise<void> gone;
  std::vector<ExchangePtr> kept;  // the loop's
  Start({.unsent_bytes = 8u << 20, .unsent_of_party = 16u << 20}, [&](const ExchangePtr& exchange) {
    kept.push_back(exchange);
    if (exchange->request().path == "/last") exchange->OnGone([&] { gone.set_value(); });
    exchange->BeginStream("text/plain");
    exchange->Write(std::string(6u << 20, 'x'));
  });
  std::vector<base::Fd> silent;
  for (const std::string path : {"/first", "/second", "/last"}) {
    silent.push_back(Connect());
    Send(silent.back(), "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    if (path == "/last") continue;
    EXPECT_NE(Receive(silent.back(), "xxx").find("200 OK"), std::string::npos);
  }
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  WhileTheLoopRests([&] {
    kept.clear();
    return true;
  });
}

TEST_F(ServerTest, UnreadWholeAnswersOfAUserAreBoundedOverAllConnections) {
  std::atomic<std::size_t> size = 6u << 20;
  Start({.unsent_of_party = 16u << 20}, [&](const ExchangePtr& exchange) {
    exchange->Send({200, std::string(size, 'x'), "text/plain"});
  });
  const auto ask = [&] {
    auto fd = Connect();
    Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    return fd;
  };
  std::vector<base::Fd> silent;
  for (int i = 0; i < 2; ++i) {
    silent.push_back(ask());
    EXPECT_NE(Receive(silent.back(), "xxx").find("200 OK"), std::string::npos);
  }
  const std::string refused = Receive(ask(), "then ask again");
  EXPECT_NE(refused.find("HTTP/1.1 503"), std::string::npos) << refused;
  size = 1000;
  EXPECT_NE(Receive(ask(), "xxx").find("200 OK"), std::string::npos) << "a small one has room";
  silent.clear();
  size = 20u << 20;
  const auto begins = [&](const base::Fd& fd) { return Receive(fd, "\r\n").substr(0, 12); };
  auto large = ask();
  while (begins(large) != "HTTP/1.1 200") {  // the server has not seen yet that the silent ones have gone
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    large = ask();
  }
}

TEST_F(ServerTest, AnAnswerToAClientThatHasGoneCountsForNobody) {
  constexpr std::size_t kAnswer = 1u << 20;
  std::vector<ExchangePtr> kept;  // the loop's
  std::atomic<std::size_t> asked = 0, gone = 0;
  Start({.unsent_of_party = 2 * kAnswer}, [&](const ExchangePtr& exchange) {
    if (exchange->request().path == "/kept") {
      exchange->OnGone([&] { ++gone; });
      kept.push_back(exchange);
      ++asked;
      return;
    }
    exchange->BeginStream("text/plain");
    exchange->Write(std::string(kAnswer, 'x'));
    exchange->EndStream();
  });
  std::vector<base::Fd> clients(3);
  for (auto& client : clients) {
    client = Connect();
    Send(client, "GET /kept HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  const std::size_t count = clients.size();
  while (asked < count) std::this_thread::yield();
  clients.clear();
  while (gone < count) std::this_thread::yield();
  WhileTheLoopRests([&] {
    for (const auto& exchange : kept) exchange->Send({200, std::string(kAnswer, 'x'), "text/plain"});
    kept.clear();
    return true;
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_GT(Receive(fd).size(), kAnswer);
}

TEST_F(ServerTest, ABodyThatDoesNotComeIsNotWaitedForAsLongAsARequest) {
  Start({.request = std::chrono::milliseconds(50), .idle = std::chrono::hours(1)}, Echo);
  base::Fd fd;
  WhileTheLoopRests([&] {  // the request is there when its time begins
    fd = Connect();
    Send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    return 0;
  });
  EXPECT_NE(Receive(fd, "[]").find("GET /a"), std::string::npos);
  Send(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_EQ(Receive(fd), "");
}

// Closing the last descriptor of a socket may block the thread that closes it; here that would be the loop's
// thread.
TEST_F(ServerTest, DescriptorPassedWithRequestDoesNotBlockLoop) {
  Start({.body_bytes = 100}, [](const ExchangePtr& exchange) {
    if (exchange->request().path != "/drop") Echo(exchange);
  });
  const std::string host = " HTTP/1.1\r\nHost: x\r\n";
  for (const std::string& first :
       {"GET /a" + host, "GET /a" + host + "\r\n", "GET /drop" + host + "\r\n",
        "POST /a" + host + "Content-Length: 50\r\n\r\n", "POST /a" + host + "Content-Length: 500\r\n\r\n",
        std::string("\x16\x03\x01 hello\r\n\r\n")}) {
    for (const bool with_first : {true, false}) {
      base::SlowClosingSocket lingering;
      ASSERT_TRUE(lingering.ok());
      auto fd = Connect();
      if (!with_first) Send(fd, first);
      // If the server has closed the connection already, nothing is passed.
      const bool passed =
          WhileTheLoopRests([&] { return lingering.PassTo(fd.get(), with_first ? first : "x"); });
      ASSERT_TRUE(passed || !with_first);
      const auto other = Connect();
      Send(other, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n");
      EXPECT_NE(Receive(other, "[]").find("GET /other"), std::string::npos);
      fd.Close();
      if (passed) lingering.AwaitClosed();
    }
  }
}

TEST_F(ServerTest, DescriptorPassedBySilentClientDoesNotBlockLoop) {
  Start({.request = std::chrono::milliseconds(50)}, Echo);
  base::SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  base::Fd fd;
  ASSERT_TRUE(WhileTheLoopRests([&] {
    fd = Connect();
    return lingering.PassTo(fd.get(), "GET");
  }));
  EXPECT_EQ(Receive(fd), "");
  lingering.AwaitClosed();
}

TEST_F(ServerTest, DescriptorOfUnacceptedConnectionDoesNotBlockShutdown) {
  Start({}, Echo);
  base::SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  std::promise<void> ended;
  ASSERT_TRUE(WhileTheLoopRests([&] {
    boost::asio::post(loop_, [&] {
      server_.reset();
      ended.set_value();
    });
    const auto fd = Connect();
    return lingering.PassTo(fd.get(), "x");
  }));
  ended.get_future().wait();
  lingering.AwaitClosed();
}

TEST_F(ServerTest, AClientThatSendsEverythingBeforeItReadsLearnsWhyItWasRefused) {
  Start({.body_bytes = 100}, Echo);
  const auto fd = Connect();
  const std::string body(8u << 20, 'x');
  const auto request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n" + body;
  std::size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = ::send(fd.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    ASSERT_GT(n, 0) << "after " << sent << " bytes";
    sent += static_cast<std::size_t>(n);
  }
  EXPECT_EQ(Receive(fd).substr(0, 12), "HTTP/1.1 413");
}

TEST_F(ServerTest, ARequestThatEndsInTheMiddleNeverReachesTheHandler) {
  std::atomic<int> handled = 0;
  Start({}, [&](const ExchangePtr& exchange) {
    ++handled;
    Echo(exchange);
  });
  const auto fd = Connect();
  Send(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  ::shutdown(fd.get(), SHUT_WR);
  EXPECT_EQ(Receive(fd).substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(handled, 0);
}

TEST_F(ServerTest, SilentClientsAreClosedAfterTheirTime) {
  Start({.request = std::chrono::milliseconds(50)}, Echo);
  const auto fd = Connect();
  EXPECT_EQ(Receive(fd), "");
}

TEST_F(ServerTest, ThousandsOfSilentClientsDoNotKeepAnybodyOut) {
  Start({.connections = 16}, Echo);
  std::vector<base::Fd> silent;
  for (int i = 0; i < 3000; ++i) {
    silent.push_back(Connect());
    if (silent.size() > 200) silent.erase(silent.begin());
  }
  const auto fd = Connect();
  Send(fd, "GET /still HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(Receive(fd, "[]").find("GET /still"), std::string::npos);
}

TEST_F(ServerTest, StreamsInChunksUntilTheEnd) {
  Start({}, [](const ExchangePtr& exchange) {
    exchange->BeginStream("text/event-stream");
    exchange->Write("one");
    exchange->Write("three");
    exchange->EndStream();
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto answer = Receive(fd, "0\r\n\r\n");
  EXPECT_NE(answer.find("\r\n\r\n3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"), std::string::npos) << answer;
}

TEST_F(ServerTest, AWaitingHandlerLearnsThatItsClientWentAway) {
  std::promise<void> asked, gone;
  ExchangePtr kept;
  Start({}, [&](const ExchangePtr& exchange) {
    kept = exchange;
    exchange->OnGone([&] { gone.set_value(); });
    asked.set_value();
  });
  auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  asked.get_future().wait();
  fd.Close();
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  std::promise<void> sent;
  boost::asio::post(loop_, [&] {
    kept->Send({200, "to nobody", "text/plain"});
    kept.reset();
    sent.set_value();
  });
  sent.get_future().wait();
}

TEST_F(ServerTest, AClientThatSentMoreAndWentIsNoticedWhileItsStreamIsQuiet) {
  std::promise<void> asked, gone;
  ExchangePtr kept;
  Start({}, [&](const ExchangePtr& exchange) {
    kept = exchange;
    exchange->OnGone([&] { gone.set_value(); });
    exchange->BeginStream("text/plain");
    asked.set_value();
  });
  auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  asked.get_future().wait();
  Send(fd, "G");
  // The server has seen the byte before the client goes.
  for (int i = 0; i < 3; ++i) WhileTheLoopRests([] { return 0; });
  fd.Close();
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const auto left = WhileTheLoopRests([&] {
    kept.reset();
    return server_->connections();
  });
  EXPECT_EQ(left, 0u) << "its place is free";
}

TEST_F(ServerTest, ARequestThatWaitsBehindAnotherIsAnsweredAfterIt) {
  std::promise<void> asked;
  ExchangePtr first;
  Start({}, [&](const ExchangePtr& exchange) {
    if (exchange->request().path != "/first") return exchange->Send({200, "second", "text/plain"});
    first = exchange;
    asked.set_value();
  });
  const auto fd = Connect();
  Send(fd, "GET /first HTTP/1.1\r\nHost: x\r\n\r\n");
  asked.get_future().wait();
  Send(fd, "GET /second HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 3; ++i) WhileTheLoopRests([] { return 0; });
  boost::asio::post(loop_, [&] { std::exchange(first, nullptr)->Send({200, "one", "text/plain"}); });
  const auto answer = Receive(fd, "second");
  EXPECT_NE(answer.find("one"), std::string::npos) << answer;
  EXPECT_NE(answer.find("second"), std::string::npos) << answer;
}

// The process that connected has ended, and another process has its connection.
TEST_F(ServerTest, TheProcessThatConnectedIsKnownByTheConnection) {
  std::promise<base::ErrorCode> of_gone;
  std::promise<base::ProcessId> of_here;
  const base::Fd left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = Address(path());
  int go[2] = {};
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  base::Fd wait(go[0]), begin(go[1]);
  // The test forks before there is a second thread: the child of a process with several threads may hang.
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool ok = ::read(wait.get(), &byte, 1) == 1 &&
                    ::connect(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::_exit(ok ? 0 : 1);
  }
  Start({}, [&](const ExchangePtr& exchange) {
    const auto process = exchange->Process();
    if (exchange->request().path == "/gone")
      of_gone.set_value(process ? base::ErrorCode::kInternal : process.error().code);
    else
      of_here.set_value(process ? process->process() : base::ProcessId{});
    exchange->Send({200, "", "text/plain"});
  });
  ASSERT_EQ(::write(begin.get(), "g", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  Send(left, "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(of_gone.get_future().get(), base::ErrorCode::kNotFound);
  const auto fd = Connect();
  Send(fd, "GET /here HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(of_here.get_future().get(), base::SelfId());
}

TEST_F(ServerTest, AReaderThatDoesNotReadIsDisconnected) {
  std::promise<void> gone;
  Start({.unsent_bytes = 1u << 20}, [&](const ExchangePtr& exchange) {
    exchange->OnGone([&] { gone.set_value(); });
    exchange->BeginStream("text/plain");
    for (int i = 0; i < 64; ++i) exchange->Write(std::string(256u << 10, 'x'));
    exchange->EndStream();
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST_F(ServerTest, AHandlerThatAsksTooLateLearnsThatItsClientIsGone) {
  std::promise<bool> told;
  Start({.unsent_bytes = 1u << 20}, [&](const ExchangePtr& exchange) {
    bool gone = false;
    exchange->BeginStream("text/plain");
    for (int i = 0; i < 64; ++i) exchange->Write(std::string(256u << 10, 'x'));
    exchange->OnGone([&] { gone = true; });
    told.set_value(gone);
  });
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(told.get_future().get());
}

#ifdef __SANITIZE_THREAD__
constexpr bool kMayForkBesideThreads = false;
#else
constexpr bool kMayForkBesideThreads = true;
#endif

// Keeps its connections until it can read a byte from `hold`, or this test is over.
pid_t ClientsOfAnotherUser(const std::string& path, uid_t uid, int count, int ready, int hold) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const auto address = Address(path);
  const std::string_view request = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";
  char byte = ::setresuid(uid, uid, uid) == 0 ? 1 : 0;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) byte = 0;  // setresuid clears it
  for (int i = 0; i < count; ++i) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0)
      byte = 0;
  }
  (void)!::write(ready, &byte, 1);
  (void)!::read(hold, &byte, 1);
  ::_exit(0);
}

TEST_F(ServerTest, AUserWhoTakesAllConnectionsKeepsNobodyElseOut) {
  if (!kMayForkBesideThreads) GTEST_SKIP() << "the thread sanitizer: such a child may stand still";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  constexpr std::size_t kConnections = 16, kOfOne = 12;
  std::vector<ExchangePtr> waiting;  // the loop's
  std::array<std::atomic<std::size_t>, 2> asked{};
  constexpr std::array<uid_t, 2> kSomebody{61234, 61235};
  Start({.connections = kConnections}, [&](const ExchangePtr& exchange) {
    if (exchange->request().path != "/wait") return Echo(exchange);
    waiting.push_back(exchange);
    ++asked[exchange->request().peer.uid == kSomebody[0] ? 0 : 1];
  });
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755) | ::chmod(path().c_str(), 0666), 0);
  std::array<int, 2> ready{}, hold{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC) | ::pipe2(hold.data(), O_CLOEXEC), 0);
  std::vector<pid_t> others;
  char all = 0;
  const auto come = [&](std::size_t who, std::size_t count) {
    others.push_back(
        ClientsOfAnotherUser(path(), kSomebody[who], static_cast<int>(count), ready[1], hold[0]));
    ASSERT_EQ(::read(ready[0], &all, 1), 1);
  };
  come(0, kOfOne);
  ASSERT_EQ(all, 1);
  while (asked[0] < kOfOne) std::this_thread::yield();
  come(0, kConnections);
  come(1, kConnections - kOfOne);
  ASSERT_EQ(all, 1);
  while (asked[1] < kConnections - kOfOne) std::this_thread::yield();
  EXPECT_EQ(asked[0], kOfOne) << "there is room left for others";
  const auto fd = Connect();
  Send(fd, "GET /mine HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(Receive(fd, "[]").find("GET /mine"), std::string::npos);
  std::promise<void> over;
  boost::asio::post(loop_, [&] {
    waiting.clear();
    over.set_value();
  });
  over.get_future().wait();
  // Any child may take a byte, so the test writes all bytes before it waits for one child.
  const std::string go(others.size(), 'g');
  ASSERT_EQ(::write(hold[1], go.data(), go.size()), static_cast<ssize_t>(go.size()));
  for (const pid_t other : others) ASSERT_EQ(::waitpid(other, nullptr, 0), other);
  for (const int fd_of : {ready[0], ready[1], hold[0], hold[1]}) ::close(fd_of);
}

TEST_F(ServerTest, OneRequestIsAnsweredBetweenTwoLooksAtTheLoop) {
  if (!kMayForkBesideThreads) GTEST_SKIP() << "the thread sanitizer: such a child may stand still";
  std::string seen;  // the loop's
  std::promise<void> all;
  Start({}, [&](const ExchangePtr& exchange) {
    Echo(exchange);
    seen += 'r';
    boost::asio::post(loop_, [&] {
      seen += 'o';
      if (seen.size() == 6) all.set_value();
    });
  });
  std::vector<base::Fd> clients;
  WhileTheLoopRests([&] {
    for (int i = 0; i < 3; ++i) {
      clients.push_back(Connect());
      Send(clients.back(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    return 0;
  });
  all.get_future().wait();
  EXPECT_EQ(seen, "rororo");
}

// Sends a part of a large body and no more, until the other end of the pipe `hold` is closed.
pid_t SlowSenderOfALargeBody(const std::string& path, uid_t uid, int ready, int hold) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const auto address = Address(path);
  const auto ask = [&](std::string_view body) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const std::string request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n";
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return -1;
    (void)!::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    (void)!::send(fd, body.data(), body.size(), MSG_NOSIGNAL);
    return fd;
  };
  char answer[13] = "";
  if (::setresuid(uid, uid, uid) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ask("half") >= 0) {
    while (std::string_view(answer) != "HTTP/1.1 503") {  // until it has been seen
      const int fd = ask(std::string(200, 'x'));
      if (fd < 0 || ::recv(fd, answer, 12, MSG_WAITALL) != 12) break;
      ::close(fd);
    }
  }
  char byte = std::string_view(answer) == "HTTP/1.1 503" ? 1 : 0;
  (void)!::write(ready, &byte, 1);
  (void)!::read(hold, &byte, 1);
  ::_exit(0);
}

TEST_F(ServerTest, AUserWhoSendsALargeBodySlowlyKeepsNobodyElseOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  Start({.body_bytes = 100,
         .large_path = "/",
         .large_body_bytes = 1000,
         .large_bodies = 2,
         .request = std::chrono::hours(1)},
        Echo);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755) | ::chmod(path().c_str(), 0666), 0);
  std::array<int, 2> ready{}, hold{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC) | ::pipe2(hold.data(), O_CLOEXEC), 0);
  std::vector<pid_t> others;
  for (const uid_t user : {61234u, 61235u}) {
    others.push_back(SlowSenderOfALargeBody(path(), user, ready[1], hold[0]));
    char seen = 0;
    ASSERT_EQ(::read(ready[0], &seen, 1), 1);
    ASSERT_EQ(seen, 1);
  }
  const auto fd = Connect();
  Send(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n" + std::string(200, 'x'));
  EXPECT_EQ(Receive(fd, "\r\n\r\n").substr(0, 12), "HTTP/1.1 200");
  ASSERT_EQ(::write(hold[1], "ab", 2), 2);
  for (const pid_t other : others) ASSERT_EQ(::waitpid(other, nullptr, 0), other);
  for (const int fd_of : {ready[0], ready[1], hold[0], hold[1]}) ::close(fd_of);
}

TEST_F(ServerTest, AnAnswerDroppedByTheHandlerClosesTheConnection) {
  Start({}, [](const ExchangePtr&) {});
  const auto fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(Receive(fd), "");
}

}  // namespace
}  // namespace gpuman::daemon::http
