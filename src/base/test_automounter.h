// An automounter for one test, in a mount namespace of the test's own; it takes root and autofs. It never
// mounts anything, but counts as one that could.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/auto_fs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/test_temp_dir.h"

namespace gpuman::base {

class TestAutomounter {
 public:
  TestAutomounter() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    requests_ = Fd(ends[0]);
    Fd questions(ends[1]);
    // The kernel asks nothing for processes of the automounter's own group, which is therefore another one's.
    owner_ = ::fork();
    if (owner_ == 0) {
      ::setpgid(0, 0);
      while (true) ::pause();
    }
    ::setpgid(owner_, owner_);
    const auto options = fmt::format("fd={},pgrp={},minproto=5,maxproto=5,indirect", questions.get(), owner_);
    is_mounted_ = owner_ > 0 && ::unshare(CLONE_NEWNS) == 0 &&
                  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount("gpuman-test", path().c_str(), "autofs", 0, options.c_str()) == 0;
    if (is_mounted_) root_ = Fd(::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  TestAutomounter(const TestAutomounter&) = delete;
  TestAutomounter& operator=(const TestAutomounter&) = delete;
  ~TestAutomounter() {
    Refuse();
    if (is_mounted_) ::umount2(path().c_str(), MNT_DETACH);
    if (owner_ <= 0) return;
    ::kill(owner_, SIGKILL);
    ::waitpid(owner_, nullptr, 0);
  }

  // Without root or without autofs there is none.
  bool is_mounted() const { return is_mounted_; }
  const std::filesystem::path& path() const { return directory_.path(); }
  // Whether the kernel has asked it to mount something since it was made, within the time.
  bool WasAsked(int millis) const {
    pollfd asked{requests_.get(), POLLIN, 0};
    return ::poll(&asked, 1, millis) == 1 && (asked.revents & POLLIN) != 0;
  }
  // Refuses what it was asked, and everything from now on.
  void Refuse() { (void)::ioctl(root_.get(), AUTOFS_IOC_CATATONIC, 0); }

 private:
  TempDir directory_;
  Fd requests_, root_;
  pid_t owner_ = -1;
  bool is_mounted_ = false;
};

}  // namespace gpuman::base
