// For tests: a state in a directory of its own, and child processes that use it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>

#include "sim/state/state.h"

namespace gpuman::sim {

class TestState {
 public:
  explicit TestState(const CreateOptions& options = {}) : state_(Make(directory_, options)) {}
  ~TestState() { std::filesystem::remove_all(directory_); }
  TestState(const TestState&) = delete;
  TestState& operator=(const TestState&) = delete;

  State& state() { return *state_; }
  Shared& shared() { return state_->shared(); }
  const std::string& directory() const { return directory_; }

 private:
  static Expected<State> Make(std::string& directory, const CreateOptions& options) {
    std::string pattern = std::filesystem::temp_directory_path() / "gpuman-sim-test.XXXXXX";
    directory = mkdtemp(pattern.data());
    return State::Create(directory, options);
  }
  std::string directory_;
  Expected<State> state_;
};

// The bytes of the GPU that this process holds.
inline std::uint64_t OwnBytes(State& state, Client& client, unsigned gpu) {
  const ProcessSlot* slot = client.Slot();
  return slot == nullptr ? 0 : HeldBy(state.shared(), *slot, gpu);
}

// A forked child that runs `body`, reports that, and then waits until it is killed.
class Child {
 public:
  explicit Child(const std::function<bool()>& body) {
    std::array<int, 2> ready{};
    if (pipe(ready.data()) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      signal(SIGSEGV, SIG_DFL);  // a sanitizer would report the test's signal
      const char answer = body() ? '1' : '0';
      if (write(ready[1], &answer, 1) != 1) _exit(2);
      for (;;) pause();
    }
    close(ready[1]);
    char answer = '0';
    succeeded_ = read(ready[0], &answer, 1) == 1 && answer == '1';
    close(ready[0]);
  }
  ~Child() {
    Kill(SIGKILL);
    Reap();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool succeeded() const { return succeeded_; }
  pid_t pid() const { return pid_; }
  // Sends the signal and waits until the process has ended, without reaping it: it stays a zombie.
  void Kill(int signal) {
    if (pid_ <= 0 || ended_) return;
    kill(pid_, signal);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    ended_ = true;
  }
  void Reap() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  bool succeeded_ = false;
  bool ended_ = false;
};

}  // namespace gpuman::sim
