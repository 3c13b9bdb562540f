// Runs each completion script in its shell and presses the key as a user does.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "api/test_server.h"

namespace gpuman::cli {
namespace {

using api::TestServer;
using ::testing::HasSubstr;

std::string Gpuman() { return std::string(::getenv("GPUMAN_BUILD_DIR")) + "/bin/gpuman"; }

bool Has(const char* program) {
  return ::system(("command -v " + std::string(program) + " >/dev/null").c_str()) == 0;
}

// A shell on a terminal of its own.
class Terminal {
 public:
  Terminal(std::vector<std::string> command, const std::filesystem::path& home, const std::string& socket) {
    winsize size{};
    size.ws_row = 50;
    size.ws_col = 200;
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    ::setenv("HOME", home.c_str(), 1);
    ::setenv("ZDOTDIR", home.c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", home.c_str(), 1);
    ::setenv("XDG_DATA_HOME", home.c_str(), 1);
    ::setenv("GPUMAN_SOCKET", socket.c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    ::setenv("PS1", "READY> ", 1);
    const std::string path = std::filesystem::path(Gpuman()).parent_path().string() + ":/usr/bin:/bin";
    ::setenv("PATH", path.c_str(), 1);
    std::vector<char*> argv;
    argv.reserve(command.size() + 1);
    for (auto& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(fd_);
  }

  void Type(std::string_view text) {
    ASSERT_EQ(::write(fd_, text.data(), text.size()), ssize_t(text.size()));
  }

  // Everything that the shell shows until `text` appears, or until no more output comes.
  std::string ShownUntil(std::string_view text) {
    std::string shown;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (shown.find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
      pollfd ready{fd_, POLLIN, 0};
      if (::poll(&ready, 1, 1000) <= 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(fd_, buffer, sizeof buffer);
      if (n <= 0) break;
      shown.append(buffer, static_cast<std::size_t>(n));
    }
    return shown;
  }

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
};

class Completion : public ::testing::Test {
 protected:
  // What an "echo" of the completed line prints: the words as the shell read them.
  TestServer server_{{TestServer::Answer(200, R"({"jobs":[{"id":1,"tag":"train-big","state":"running"},
                                                          {"id":2,"tag":"zoo:x","state":"running"}],"gpus":[]})")}};
  base::TempDir home_;
};

TEST_F(Completion, OfBashKnowsTags) {
  if (!Has("bash")) GTEST_SKIP() << "no bash";
  std::ofstream(home_.path() / "rc") << "PS1='READY> '\nsource <(gpuman completion bash)\n"
                                     << "bind 'set enable-bracketed-paste off'\n";
  Terminal bash({"bash", "--noprofile", "--rcfile", (home_.path() / "rc").string(), "-i"}, home_.path(),
                server_.socket().string());
  EXPECT_THAT(bash.ShownUntil("READY> "), HasSubstr("READY> "));
  bash.Type("gpuman lo\t");
  EXPECT_THAT(bash.ShownUntil("gpuman logs "), HasSubstr("gpuman logs "));
  bash.Type("t\t");
  EXPECT_THAT(bash.ShownUntil("train-big "), HasSubstr("train-big "));
  bash.Type("--fo\t");
  EXPECT_THAT(bash.ShownUntil("--follow "), HasSubstr("--follow "));
  bash.Type("\x15gpuman update --tag=zo\t");
  EXPECT_THAT(bash.ShownUntil("--tag=zoo:x"), HasSubstr("--tag=zoo:x"));
  bash.Type("\x15gpuman remove zoo:\t");
  EXPECT_THAT(bash.ShownUntil("remove zoo:x "), HasSubstr("remove zoo:x "));
}

TEST_F(Completion, OfBashLeavesTheJobsCommandToBash) {
  if (!Has("bash")) GTEST_SKIP() << "no bash";
  std::ofstream(home_.path() / "unlikely-script.py") << "";
  std::ofstream(home_.path() / "rc") << "cd\nPS1='READY> '\nsource <(gpuman completion bash)\n";
  Terminal bash({"bash", "--noprofile", "--rcfile", (home_.path() / "rc").string(), "-i"}, home_.path(),
                server_.socket().string());
  bash.ShownUntil("READY> ");
  bash.Type("gpuman run --tag x -- cat unlik\t");
  EXPECT_THAT(bash.ShownUntil("unlikely-script.py"), HasSubstr("unlikely-script.py"));
}

TEST_F(Completion, OfZshKnowsTags) {
  if (!Has("zsh")) GTEST_SKIP() << "no zsh";
  std::ofstream(home_.path() / ".zshrc")
      << "PS1='READY> '\nautoload -Uz compinit\ncompinit -u -D\n"
      << "unsetopt zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste\n"
      << "source <(gpuman completion zsh)\n";
  Terminal zsh({"zsh", "-d", "-i"}, home_.path(), server_.socket().string());
  EXPECT_THAT(zsh.ShownUntil("READY> "), HasSubstr("READY> "));
  zsh.Type("gpuman logs t\t");
  EXPECT_THAT(zsh.ShownUntil("rain-big"), HasSubstr("rain-big"));
  zsh.Type("\x15gpuman pro\t");
  EXPECT_THAT(zsh.ShownUntil("clist"), HasSubstr("clist"));
  zsh.Type("\x15gpuman remove zo\t");
  EXPECT_THAT(zsh.ShownUntil("o:x"), HasSubstr("o:x"));
}

std::string OutputOf(const std::string& command) {
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run";
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  ::pclose(pipe);
  return output;
}

// fish itself prints its completions.
TEST_F(Completion, OfFishKnowsTags) {
  if (!Has("fish")) GTEST_SKIP() << "no fish";
  const auto folder = std::filesystem::path(Gpuman()).parent_path().string();
  const auto complete = [&](const std::string& line) {
    return OutputOf("HOME=" + home_.path().string() + " XDG_CONFIG_HOME=" + home_.path().string() +
                    " GPUMAN_SOCKET=" + server_.socket().string() + " PATH=" + folder +
                    ":$PATH fish --private -c 'gpuman completion fish | source; complete -C \"" + line +
                    "\"' 2>&1");
  };
  EXPECT_EQ(complete("gpuman logs t"), "train-big\tjob 1, running\n");
  EXPECT_THAT(complete("gpuman remove "), HasSubstr("zoo:x\tjob 2, running\n"));
  EXPECT_THAT(complete("gpuman procl"), HasSubstr("proclist\t"));
  EXPECT_THAT(complete("gpuman run --rest"), HasSubstr("--restart\t"));
  EXPECT_THAT(complete("gpuman run --tag x -- cat /etc/host"), HasSubstr("/etc/hosts"));
}

}  // namespace
}  // namespace gpuman::cli
