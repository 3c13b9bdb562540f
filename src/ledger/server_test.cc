#include "ledger/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <vector>

#include "base/test_slow_closing_socket.h"
#include "base/test_temp_dir.h"
#include "ledger/wire/messages.h"
#include "ledger/wire/transfer.h"

namespace gpuman::ledger {
namespace {

constexpr base::JobId kAskedJob{7};
const std::string kUuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    EXPECT_TRUE(ledgers_.Create(kAskedJob, std::vector{GpuLimit{kUuid, base::Bytes{1 << 20}, {}, {}}}));
    auto listening = ListenForShims(path_, 0600);
    EXPECT_TRUE(listening);
    auto server = Server::Make(std::move(*listening), ledgers_, [this](const LedgerRequest& caller) {
      caller_ = caller;
      ++asked_;
      if (while_attributing_) while_attributing_();
      return answer_;
    });
    EXPECT_TRUE(server);
    server_.emplace(std::move(*server));
  }

  base::Fd Connect() {
    base::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.string().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  // Serves while there is something to serve.
  void Serve() {
    pollfd entry{server_->descriptor(), POLLIN, 0};
    while (::poll(&entry, 1, 0) > 0) server_->Serve();
  }
  wire::Welcome Ask(const wire::ShimHello& hello, int& descriptors) {
    const base::Fd fd = Connect();
    EXPECT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
    Serve();
    wire::Welcome welcome{};
    alignas(cmsghdr) char control[256];
    iovec part{&welcome, sizeof welcome};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT_EQ(::recvmsg(fd.get(), &message, MSG_DONTWAIT), static_cast<ssize_t>(sizeof welcome));
    descriptors = 0;
    for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
      int numbers[8] = {};
      const auto count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::memcpy(numbers, CMSG_DATA(h), count * sizeof(int));
      for (std::size_t i = 0; i < count; ++i) kept_.emplace_back(numbers[i]);
      descriptors += static_cast<int>(count);
    }
    return welcome;
  }
  static wire::ShimHello GoodHello() {
    wire::ShimHello hello{};
    hello.magic = wire::kHelloMagic;
    hello.version = wire::kVersion;
    hello.job = 7;
    std::strcpy(hello.key, "secret");
    return hello;
  }

  base::TempDir dir_;
  std::filesystem::path path_ = std::filesystem::path(dir_.path()) / "shim.sock";
  Ledgers ledgers_;
  JobAttribution answer_{AttributionOutcome::kJob, kAskedJob};
  std::optional<LedgerRequest> caller_;
  int asked_ = 0;  // how often the server asked for a process's job
  std::function<void()> while_attributing_;
  std::optional<Server> server_;
  std::vector<base::Fd> kept_;
};

TEST_F(ServerTest, GivesAProcessOfAJobItsPlaceInTheLedger) {
  int descriptors = 0;
  const auto welcome = Ask(GoodHello(), descriptors);
  EXPECT_EQ(welcome.magic, wire::kWelcomeMagic);
  EXPECT_EQ(welcome.answer, wire::JoinAnswer::kJoined);
  EXPECT_EQ(welcome.bytes, sizeof(wire::Ledger));
  EXPECT_EQ(descriptors, 2);
  ASSERT_TRUE(caller_);
  EXPECT_EQ(caller_->process, base::SelfId());
  EXPECT_EQ(caller_->uid, ::geteuid());
  EXPECT_EQ(caller_->claimed_job, kAskedJob);
  EXPECT_EQ(caller_->key, "secret");
  EXPECT_TRUE(ledgers_.Registered(kAskedJob, base::SelfId()));
}

TEST_F(ServerTest, SaysWhyThereIsNone) {
  int descriptors = 0;
  auto hello = GoodHello();
  hello.version = 99;
  EXPECT_EQ(Ask(hello, descriptors).answer, wire::JoinAnswer::kOtherVersion);
  answer_ = {};
  EXPECT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kNoJob);
  answer_.outcome = AttributionOutcome::kJob;
  answer_.job = {1000};  // a job without a ledger
  EXPECT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kNoJob);
  EXPECT_EQ(descriptors, 0);
}

TEST_F(ServerTest, KeepsAProcessWaitingWhoseJobIsNotKnownYet) {
  const base::Fd fd = Connect();
  const auto hello = GoodHello();
  ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  answer_ = {AttributionOutcome::kLater, {}};
  Serve();
  server_->AskAgain();
  Serve();
  wire::Welcome welcome{};
  EXPECT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_DONTWAIT), -1);
  answer_ = {AttributionOutcome::kJob, kAskedJob};
  server_->AskAgain();
  Serve();
  EXPECT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_DONTWAIT), static_cast<ssize_t>(sizeof welcome));
  EXPECT_EQ(welcome.answer, wire::JoinAnswer::kJoined);
  EXPECT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_DONTWAIT), 0) << "and closed";
}

TEST_F(ServerTest, HangsUpOnNonsenseAndGoesOn) {
  const base::Fd nonsense = Connect(), silent = Connect(), gone = Connect();
  ASSERT_EQ(::send(nonsense.get(), "GET / HTTP/1.1", 14, 0), 14);
  base::Fd closed = Connect();
  closed.Close();
  Serve();
  char byte = 0;
  EXPECT_EQ(::recv(nonsense.get(), &byte, 1, MSG_DONTWAIT), 0);
  int descriptors = 0;
  EXPECT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kJoined);
}

TEST_F(ServerTest, AKeyThatDoesNotEndIsCutWhereItsFieldEnds) {
  auto hello = GoodHello();
  std::memset(hello.key, 'k', sizeof hello.key);
  int descriptors = 0;
  EXPECT_EQ(Ask(hello, descriptors).answer, wire::JoinAnswer::kJoined);
  EXPECT_EQ(caller_->key.size(), sizeof hello.key);
}

// A descriptor may block the thread that drops its last reference.
TEST_F(ServerTest, ADescriptorThatIsPassedAlongHoldsUpNobody) {
  const auto hello = GoodHello();
  const std::string_view said(reinterpret_cast<const char*>(&hello), sizeof hello);
  auto notify = hello;
  notify.magic = wire::kNotifyMagic;
  const std::string_view rung(reinterpret_cast<const char*>(&notify), sizeof notify);
  for (const auto& [first, second] : {std::pair{said, std::string_view()},
                                      {said, said},
                                      {rung, said},
                                      {std::string_view("nonsense"), said}}) {
    for (const bool with_first : {true, false}) {
      base::SlowClosingSocket lingering;
      ASSERT_TRUE(lingering.ok());
      const base::Fd fd = Connect();
      if (with_first) {
        ASSERT_TRUE(lingering.PassTo(fd.get(), first));
      } else {
        ASSERT_EQ(::send(fd.get(), first.data(), first.size(), 0), static_cast<ssize_t>(first.size()));
        ASSERT_TRUE(lingering.PassTo(fd.get(), second));
      }
      Serve();
      lingering.AwaitClosed();
    }
  }
  int descriptors = 0;
  EXPECT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kJoined);
}

TEST_F(ServerTest, AProcessThatIsAnsweredLateMayHavePassedADescriptorToo) {
  const base::Fd fd = Connect();
  const auto hello = GoodHello();
  ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  answer_ = {AttributionOutcome::kLater, {}};
  Serve();
  base::SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.PassTo(fd.get(), "x"));
  answer_ = {AttributionOutcome::kJob, kAskedJob};
  server_->AskAgain();
  Serve();
  lingering.AwaitClosed();
}

TEST_F(ServerTest, ADescriptorOfWhoWasNotAcceptedHoldsUpNoEnd) {
  base::SlowClosingSocket lingering;
  ASSERT_TRUE(lingering.ok());
  ASSERT_TRUE(lingering.PassTo(Connect().get(), "x"));
  server_.reset();
  lingering.AwaitClosed();
}

TEST_F(ServerTest, WithoutADescriptorLeftItWaitsInsteadOfTryingAllTheTime) {
  int told = 0;
  server_->SetErrorHandler([&](const base::Error& error) {
    ++told;
    EXPECT_EQ(error.code, base::ErrorCode::kExhausted) << error.message;
  });
  const base::Fd first = Connect();
  const auto hello = GoodHello();
  ASSERT_EQ(::send(first.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int lowest = ::fcntl(first.get(), F_DUPFD_CLOEXEC, 0);
  ::close(lowest);
  const rlimit none{static_cast<rlim_t>(lowest), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  pollfd entry{server_->descriptor(), POLLIN, 0};
  int rests = 0;
  for (int i = 0; i < 1000 && rests < 3; ++i) {
    EXPECT_EQ(::poll(&entry, 1, -1), 1) << "it looks again";
    server_->Serve();
    if (::poll(&entry, 1, 0) == 0) ++rests;
  }
  EXPECT_EQ(rests, 3);
  EXPECT_EQ(told, 1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  wire::Welcome welcome{};
  while (::recv(first.get(), &welcome, sizeof welcome, MSG_DONTWAIT) < 0) {
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    server_->Serve();
  }
  EXPECT_EQ(welcome.answer, wire::JoinAnswer::kJoined);
}

// The process of the connection has ended, and another process may have its pid.
TEST_F(ServerTest, AConnectionWhoseProcessHasEndedGetsNothingWhoeverSpeaksOnIt) {
  for (const bool spoke_before : {true, false}) {
    const base::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto hello = GoodHello();
    const pid_t child = ::fork();
    if (child == 0) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path_.native().copy(address.sun_path, sizeof address.sun_path - 1);
      const bool connected =
          ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      ::_exit(connected && (!spoke_before || ::send(fd.get(), &hello, sizeof hello, 0) > 0) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    if (!spoke_before) {
      ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
    }
    Serve();
    wire::Welcome welcome{};
    ASSERT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_DONTWAIT), static_cast<ssize_t>(sizeof welcome));
    EXPECT_EQ(welcome.answer, wire::JoinAnswer::kNoJob);
    EXPECT_FALSE(caller_) << "nobody is asked whose it is";
  }
}

// The process lives when it says hello, and has ended when its job is known.
TEST_F(ServerTest, AProcessThatEndsWhileItIsLookedForGetsNothing) {
  const base::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto hello = GoodHello();
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.native().copy(address.sun_path, sizeof address.sun_path - 1);
    (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    (void)::send(fd.get(), &hello, sizeof hello, 0);
    (void)!::write(ready[1], "", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  while_attributing_ = [&] {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  };
  Serve();
  wire::Welcome welcome{};
  ASSERT_EQ(::recv(fd.get(), &welcome, sizeof welcome, MSG_DONTWAIT), static_cast<ssize_t>(sizeof welcome));
  EXPECT_EQ(caller_->process.pid, child);
  EXPECT_EQ(welcome.answer, wire::JoinAnswer::kNoJob);
  for (const int end : ready) ::close(end);
}

TEST_F(ServerTest, ASilentClientIsDisconnectedWithoutOtherEvents) {
  const base::Fd silent = Connect();
  Serve();
  std::array<pollfd, 2> entries{{{server_->descriptor(), POLLIN, 0}, {silent.get(), POLLIN, 0}}};
  while ((entries[1].revents & POLLHUP) == 0) {
    ASSERT_GT(::poll(entries.data(), entries.size(), 60'000), 0) << "nobody wakes the server";
    server_->Serve();
  }
}

TEST_F(ServerTest, AJobThatHasComeIsAReasonToAskAboutThoseWhoWaitForItAlone) {
  std::array<base::Fd, 3> waiting;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    waiting[i] = Connect();
    const auto hello = GoodHello();
    ASSERT_EQ(::send(waiting[i].get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
    answer_ = {AttributionOutcome::kLater, base::JobId{i == 0 ? 0 : 100 + static_cast<std::int64_t>(i)}};
    Serve();
  }
  answer_ = {AttributionOutcome::kJob, kAskedJob};
  server_->AskAgain(base::JobId{102});
  Serve();
  wire::Welcome welcome{};
  EXPECT_EQ(::recv(waiting[0].get(), &welcome, sizeof welcome, MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof welcome))
      << "it waits for no job in particular";
  EXPECT_EQ(::recv(waiting[1].get(), &welcome, sizeof welcome, MSG_DONTWAIT), -1);
  EXPECT_EQ(::recv(waiting[2].get(), &welcome, sizeof welcome, MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof welcome));
  server_->AskAgain();
  Serve();
  EXPECT_EQ(::recv(waiting[1].get(), &welcome, sizeof welcome, MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof welcome));
}

// Between two processes, the loop handles what has come meanwhile.
TEST_F(ServerTest, OneProcessIsAnsweredAtATime) {
  std::array<base::Fd, 5> connections;
  for (auto& fd : connections) fd = Connect();
  Serve();
  const auto hello = GoodHello();
  for (const auto& fd : connections)
    ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  answer_ = {AttributionOutcome::kLater, {}};
  pollfd entry{server_->descriptor(), POLLIN, 0};
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(::poll(&entry, 1, 0), 1);
    server_->Serve();
    EXPECT_EQ(asked_, i);
  }
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  server_->AskAgain();
  EXPECT_EQ(asked_, 5) << "not before it is their turn";
  for (int i = 6; i <= 10; ++i) {
    EXPECT_EQ(::poll(&entry, 1, 0), 1);
    server_->Serve();
    EXPECT_EQ(asked_, i);
  }
}

TEST_F(ServerTest, AClientThatIsNotIdentifiedYetIsLookedUpAgain) {
  const base::Fd first = Connect(), second = Connect();
  const auto hello = GoodHello();
  answer_ = {AttributionOutcome::kNotYet, {}};
  for (const auto* const fd : {&first, &second})
    ASSERT_EQ(::send(fd->get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  pollfd entry{server_->descriptor(), POLLIN, 0};
  while (asked_ < 5) {
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    server_->Serve();
  }
  wire::Welcome welcome{};
  EXPECT_EQ(::recv(first.get(), &welcome, sizeof welcome, MSG_DONTWAIT), -1);
  answer_ = {AttributionOutcome::kJob, kAskedJob};
  for (const auto* const fd : {&first, &second}) {
    while (::recv(fd->get(), &welcome, sizeof welcome, MSG_DONTWAIT) < 0) {
      ASSERT_EQ(::poll(&entry, 1, -1), 1);
      server_->Serve();
    }
    EXPECT_EQ(welcome.answer, wire::JoinAnswer::kJoined);
  }
}

TEST_F(ServerTest, ANotificationOfAProcessInTheLedgerItClaimsIsHeardAtOnce) {
  int descriptors = 0;
  ASSERT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kJoined);
  const int asked = asked_;
  std::vector<base::JobId> rung;
  server_->SetSlotListener([&](base::JobId job, base::ProcessId) { rung.push_back(job); });
  pollfd entry{server_->descriptor(), POLLIN, 0};
  const auto notify = [&](base::JobId claimed) {
    auto hello = GoodHello();
    hello.magic = wire::kNotifyMagic;
    hello.job = static_cast<std::uint64_t>(claimed.value);
    const base::Fd fd = Connect();
    const std::size_t before = rung.size();
    ASSERT_EQ(::send(fd.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
    while (rung.size() == before) {
      ASSERT_EQ(::poll(&entry, 1, -1), 1);
      server_->Serve();
    }
  };
  notify(kAskedJob);
  EXPECT_EQ(asked_, asked);
  // For a notification of any other job, the server asks whose process has sent it.
  notify(base::JobId{kAskedJob.value + 1});
  EXPECT_EQ(asked_, asked + 1);
  EXPECT_EQ(rung, (std::vector{kAskedJob, kAskedJob}));
}

// A notification is heard even if the process's job was not known at first.
TEST_F(ServerTest, ANotificationIsKeptUntilItsSenderIsKnown) {
  int descriptors = 0;
  ASSERT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kJoined);
  int rung = 0;
  server_->SetSlotListener([&](base::JobId, base::ProcessId) { ++rung; });
  auto notify = GoodHello();
  notify.magic = wire::kNotifyMagic;
  notify.job = 0;
  const base::Fd fd = Connect();
  ASSERT_EQ(::send(fd.get(), &notify, sizeof notify, 0), static_cast<ssize_t>(sizeof notify));
  answer_ = {AttributionOutcome::kNotYet, {}};
  pollfd entry{server_->descriptor(), POLLIN, 0};
  for (const int before = asked_; asked_ < before + 2;) {
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    server_->Serve();
  }
  EXPECT_EQ(rung, 0);
  answer_ = {AttributionOutcome::kJob, kAskedJob};
  while (rung == 0) {
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    server_->Serve();
  }
  EXPECT_EQ(rung, 1);
}

TEST_F(ServerTest, UsersTakeTurnsHoweverManyProcessesOfOneAsk) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  constexpr uid_t kOther = 61234;
  constexpr int kMany = 8;
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755) | ::chmod(path_.c_str(), 0666), 0);
  std::array<int, 2> done{}, go{};
  ASSERT_EQ(::pipe2(done.data(), O_CLOEXEC) | ::pipe2(go.data(), O_CLOEXEC), 0);
  const auto hello = GoodHello();
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.native().copy(address.sun_path, sizeof address.sun_path - 1);
    bool fine = ::setresuid(kOther, kOther, kOther) == 0;
    std::array<int, kMany> connections{};
    for (int& fd : connections) {
      fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
      fine = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && fine;
    }
    char byte = fine ? 1 : 0;
    (void)!::write(done[1], &byte, 1);
    (void)!::read(go[0], &byte, 1);
    for (const int fd : connections) (void)!::send(fd, &hello, sizeof hello, 0);
    (void)!::write(done[1], &byte, 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(done[0], &byte, 1), 1);
  ASSERT_EQ(byte, 1);
  const base::Fd mine = Connect();
  Serve();
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  ASSERT_EQ(::read(done[0], &byte, 1), 1);
  ASSERT_EQ(::send(mine.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::vector<uid_t> order;
  while_attributing_ = [&] { order.push_back(caller_->uid); };
  Serve();
  ASSERT_EQ(order.size(), kMany + 1u);
  EXPECT_EQ(order[0], kOther);
  EXPECT_EQ(order[1], 0u) << "one of the many, then the other user's";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int fd : {done[0], done[1], go[0], go[1]}) ::close(fd);
}

// A process that makes as many connections as possible and says nothing, until the pipe is closed.
pid_t SilentCrowd(const std::filesystem::path& path, uid_t user, int ready, int hold) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  char byte = ::setresuid(user, user, user) == 0 ? 1 : 0;
  int opened = 0;
  for (; opened < 4096; ++opened) {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) break;
    (void)!::write(ready, &byte, 1);
  }
  byte = 2;
  (void)!::write(ready, &byte, 1);
  (void)!::read(hold, &byte, 1);
  ::_exit(0);
}

TEST_F(ServerTest, AUserWhoConnectsAndSaysNothingKeepsNobodyElseOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit most{before.rlim_max, before.rlim_max};
  if (most.rlim_cur < 10'000) GTEST_SKIP() << "needs 10000 descriptors";
  ::setrlimit(RLIMIT_NOFILE, &most);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755) | ::chmod(path_.c_str(), 0666), 0);
  std::array<int, 2> ready{}, hold{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC) | ::pipe2(hold.data(), O_CLOEXEC), 0);
  const pid_t crowd = SilentCrowd(path_, 61234, ready[1], hold[0]);
  for (char said = 1; said == 1;) {
    ASSERT_EQ(::read(ready[0], &said, 1), 1);
    ASSERT_NE(said, 0);
    Serve();
  }
  answer_ = {AttributionOutcome::kJob, kAskedJob};
  int descriptors = 0;
  EXPECT_EQ(Ask(GoodHello(), descriptors).answer, wire::JoinAnswer::kJoined);
  ASSERT_EQ(::write(hold[1], "", 1), 1);
  ASSERT_EQ(::waitpid(crowd, nullptr, 0), crowd);
  for (const int fd : {ready[0], ready[1], hold[0], hold[1]}) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace gpuman::ledger
