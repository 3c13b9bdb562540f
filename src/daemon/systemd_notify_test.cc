#include "daemon/systemd_notify.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/fd.h"
#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

// Receives what systemd would receive at `path`; an '@' at its beginning stands for an abstract name.
class Manager {
 public:
  explicit Manager(std::string path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    if (path[0] == '@') path[0] = '\0';
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    bound_ = ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) == 0;
  }
  bool bound() const { return bound_; }
  // Sent within this process, so it is there or never comes.
  std::string Heard() {
    char text[256];
    const ssize_t n = ::recv(fd_.get(), text, sizeof text, MSG_DONTWAIT);
    return n < 0 ? "" : std::string(text, static_cast<std::size_t>(n));
  }

 private:
  base::Fd fd_;
  bool bound_ = false;
};

class NotifyTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  base::TempDir directory_;
};

TEST_F(NotifyTest, ReadyAndAliveReachTheServiceManager) {
  for (const std::string& place :
       {(directory_.path() / "notify").string(), "@gpuman-notify-test-" + std::to_string(::getpid())}) {
    Manager manager(place);
    ASSERT_TRUE(manager.bound());
    NotifyReady();
    EXPECT_EQ(manager.Heard(), "READY=1");
    NotifyAlive();
    EXPECT_EQ(manager.Heard(), "WATCHDOG=1");
    NotifyReloading();
    const std::string reloading = manager.Heard();
    EXPECT_TRUE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << reloading;
    EXPECT_GT(std::stoll(reloading.substr(reloading.rfind('=') + 1)), 0);
    NotifyStopping();
    EXPECT_EQ(manager.Heard(), "STOPPING=1");
  }
}

TEST_F(NotifyTest, MissingOrInvalidSocketIsIgnored) {
  NotifyReady();
  ::setenv("NOTIFY_SOCKET", (directory_.path() / "nobody").c_str(), 1);
  NotifyReady();
  ::setenv("NOTIFY_SOCKET", std::string(200, '/').c_str(), 1);
  NotifyReady();
  ::setenv("NOTIFY_SOCKET", "relative", 1);
  NotifyReady();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "nobody"));
}

TEST_F(NotifyTest, WatchdogPeriodIsReadForThisProcessOnly) {
  EXPECT_FALSE(WatchdogPeriod());
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_EQ(WatchdogPeriod(), std::chrono::seconds(30));
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(WatchdogPeriod(), std::chrono::seconds(30));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(WatchdogPeriod());
  ::unsetenv("WATCHDOG_PID");
  for (const char* wrong : {"0", "-5", "soon", "", "5s"}) {
    ::setenv("WATCHDOG_USEC", wrong, 1);
    EXPECT_FALSE(WatchdogPeriod()) << wrong;
  }
}

}  // namespace
}  // namespace gpuman::daemon
