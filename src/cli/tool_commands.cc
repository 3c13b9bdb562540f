// completion, config: what concerns gpuman itself.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "cli/command.h"
#include "cli/completion_scripts.h"
#include "cli/find_daemon.h"

namespace gpuman::cli {
namespace {

base::Result<int> PrintCompletion(Session& session, const std::string& shell) {
  session.Print(shell == "bash" ? kBashCompletion : shell == "zsh" ? kZshCompletion : kFishCompletion);
  return kExitDone;
}

struct Finished {
  int status = 0;  // exit status, 128+N for a signal
  std::string output;
};

// Runs a program to its end and takes what it wrote on stdout and stderr.
base::Result<Finished> RunProgram(std::vector<std::string> command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return base::FailSystem(errno, "making a pipe");
  const base::Fd reader(ends[0]);
  base::Fd writer(ends[1]);
  std::vector<char*> argv;
  for (auto& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 2);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return base::FailSystem(error, fmt::format("starting {}", command[0]));
  writer.Close();
  Finished finished;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = ::read(reader.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    finished.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  finished.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return finished;
}

// The daemon alone knows its keys, so it is the one that checks them.
base::Result<int> CheckConfig(Session& session, const std::optional<std::string>& file) {
  GPUMAN_ASSIGN(const auto program, FindProgram("gpumand", session.environment()));
  std::vector<std::string> command{program.string(), "--check-config"};
  std::error_code ignored;
  if (file)
    command.insert(command.end(), {"--config", *file});
  else if (::geteuid() != 0 && !std::filesystem::exists(base::SystemPaths().config, ignored))
    command.emplace_back("--user");
  GPUMAN_ASSIGN(Finished checked, RunProgram(std::move(command)));
  while (checked.output.ends_with('\n')) checked.output.pop_back();
  if (checked.status != 0)
    return base::Fail(base::ErrorCode::kCorrupt, checked.output.empty()
                                                     ? fmt::format("gpumand exited with {}", checked.status)
                                                     : checked.output);
  if (session.json)
    session.PrintJson({{"valid", true}});
  else
    session.Print((checked.output.empty() ? "the configuration is valid" : checked.output) + "\n");
  return kExitDone;
}

}  // namespace

void AddCompletion(const Registry& registry) {
  const auto shell = std::make_shared<std::string>();  // shared by the parser's bindings and the action
  auto* completion = registry.Add("completion", "Print the completion script for a shell",
                                  "source <(gpuman completion bash)        in ~/.bashrc\n"
                                  "  source <(gpuman completion zsh)         in ~/.zshrc, after compinit\n"
                                  "  gpuman completion fish | source         in ~/.config/fish/config.fish",
                                  [shell](Session& session) { return PrintCompletion(session, *shell); });
  completion->add_option("shell", *shell, "The shell")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}).description(""));
}

void AddConfig(const Registry& registry) {
  auto* config = registry.Add("config", "Check the daemon's configuration", "gpuman config check", nullptr);
  config->require_subcommand(1);
  const auto file =
      std::make_shared<std::optional<std::string>>();  // shared by the parser's bindings and the action
  auto* check = registry.Add(
      "check", "Say whether a configuration file is valid, and where it is not",
      "gpuman config check /etc/gpuman/gpumand.toml",
      [file](Session& session) { return CheckConfig(session, *file); }, config);
  check->add_option("file", *file, "The file (default: the one gpumand would read)")->type_name(kFileValue);
}

}  // namespace gpuman::cli
