#include "cli/open_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/process_spawner.h"
#include "cli/search_path.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

constexpr const char* kOpener = "xdg-open";

base::Result<pid_t> Spawn(const std::filesystem::path& opener, const std::filesystem::path& file) {
  base::ProcessSpawner setup;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    setup.GiveNull(standard, standard == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  setup.CloseFrom(STDERR_FILENO + 1);
  std::vector<std::string> arguments{opener.string(), file.string()};
  return setup.Start(opener.c_str(), base::PointersTo(arguments).data(), environ);
}

// Waits until the child ends or `stop` is readable. A sentence if it failed.
std::optional<std::string> WhyItFailed(pid_t child, const base::Fd& process, int stop) {
  std::array<pollfd, 2> fds{{{stop, POLLIN, 0}, {process.get(), POLLIN, 0}}};
  while (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) continue;
  if (fds[1].revents == 0) return std::nullopt;
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) != child || status == 0) return std::nullopt;
  return WIFEXITED(status) ? fmt::format("{} ended with exit status {}", kOpener, WEXITSTATUS(status))
                           : fmt::format("{} was ended by signal {}", kOpener, WTERMSIG(status));
}

}  // namespace

std::optional<std::filesystem::path> BrowserOpener(const base::EnvironmentLookup& environment) {
  for (const auto& folder : FoldersOf(environment("PATH").value_or(std::string(kUsualPath)))) {
    auto path = std::filesystem::path(folder) / kOpener;
    if (path.is_absolute() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return std::nullopt;
}

std::optional<std::string> WhyNoBrowser(const base::EnvironmentLookup& environment,
                                        const std::optional<std::filesystem::path>& opener) {
  if (environment("SSH_CONNECTION")) return "your browser is at the other end of ssh";
  if (!environment("DISPLAY") && !environment("WAYLAND_DISPLAY"))
    return "there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set";
  if (!opener) return fmt::format("{} is not in PATH; the package xdg-utils has it", kOpener);
  return std::nullopt;
}

std::string PageThatLeadsTo(std::string_view link) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gpuman</title>\n"
      "<meta http-equiv=\"refresh\" content=\"0; url={0}\"></head>\n"
      "<body><p><a href=\"{0}\">gpuman</a></p></body></html>\n",
      link);
}

base::Result<std::unique_ptr<OpenedLink>> OpenedLink::Open(const std::filesystem::path& opener,
                                                           const std::filesystem::path& folder,
                                                           std::string_view link,
                                                           std::function<void(const std::string&)> failed) {
  GPUMAN_TRY(base::MakePrivateDirectory(folder));
  std::unique_ptr<OpenedLink> opened(new OpenedLink(folder / fmt::format("web-{}.html", ::getpid())));
  GPUMAN_TRY(base::ReplaceFile(opened->file_, PageThatLeadsTo(link), 0600));
  GPUMAN_TRY(opened->Start(opener, std::move(failed)));
  return opened;
}

base::Result<> OpenedLink::Start(const std::filesystem::path& opener,
                                 std::function<void(const std::string&)> failed) {
  stop_ = base::Fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_.ok()) return base::FailSystem(errno, "making a descriptor");
  GPUMAN_ASSIGN(const pid_t child, Spawn(opener, file_));
  GPUMAN_ASSIGN(base::Fd process, base::WatchChild(child));
  try {
    watch_ =
        std::thread([child, process = std::move(process), stop = stop_.get(), failed = std::move(failed)] {
          if (const auto why = WhyItFailed(child, process, stop)) failed(*why);
        });
  } catch (const std::system_error& error) {
    return base::Fail(ErrorCode::kExhausted, std::string("starting a thread: ") + error.what());
  }
  return {};
}

OpenedLink::~OpenedLink() {
  if (watch_.joinable()) {
    ::eventfd_write(stop_.get(), 1);
    watch_.join();
  }
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

}  // namespace gpuman::cli
