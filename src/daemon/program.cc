#include "daemon/program.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/heap.h"
#include "base/output.h"
#include "base/paths.h"
#include "daemon/config/config.h"
#include "daemon/daemon.h"
#include "daemon/log_format.h"
#include "daemon/start_error.h"
#include "daemon/systemd_notify.h"

namespace gpuman::daemon {
namespace {

constexpr int kUsage = 2;
constexpr int kNoSuchFile = 4;  // as `gpuman config check` has it
constexpr int kUrgency = -10;   // nice value of the loop: the jobs' load must not delay a SIGKILL to a job

struct Options {
  std::string config, socket, state_dir;
  bool user = false;
  bool check_config = false;
};

constexpr const char* kFooter = R"(Examples:
  gpumand --user                    for yourself, without root (gpuman starts it on demand)
  gpumand --check-config --config /etc/gpuman/gpumand.toml
Environment: GPUMAN_CONFIG, GPUMAN_SOCKET and GPUMAN_STATE_DIR set the same as the options.)";

// All but the values of the configuration file: its path, and the defaults for keys that it leaves out.
struct ResolvedOptions {
  std::filesystem::path file;
  bool file_required = false;
  Config defaults;
};

ResolvedOptions Resolve(const Options& options) {
  const auto paths = options.user ? base::UserPaths() : base::SystemPaths();
  ResolvedOptions resolved;
  resolved.file = options.config.empty() ? paths.config : std::filesystem::path(options.config);
  resolved.file_required = !options.config.empty();
  resolved.defaults.socket = paths.socket;
  resolved.defaults.state_dir = paths.state;
  return resolved;
}

// Options and environment override the file.
void Override(const Options& options, Config& config) {
  if (!options.socket.empty()) config.socket = std::filesystem::absolute(options.socket);
  if (!options.state_dir.empty()) config.state_dir = std::filesystem::absolute(options.state_dir);
}

// Returns the configuration, or the exit status.
tl::expected<Config, int> Load(const Options& options) {
  const auto resolved = Resolve(options);
  if (std::error_code error;
      resolved.file_required && !std::filesystem::exists(resolved.file, error) && !error) {
    std::fprintf(stderr, "there is no file %s\n", resolved.file.c_str());
    return tl::unexpected(kNoSuchFile);
  }
  auto config = LoadConfig(resolved.file, resolved.file_required, resolved.defaults);
  if (!config) {
    for (const auto& problem : config.error()) std::fprintf(stderr, "%s\n", Describe(problem).c_str());
    return tl::unexpected(kUsage);
  }
  Override(options, *config);
  return std::move(*config);
}

void SetLogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::set_level(spdlog::level::debug);
    case LogLevel::kInfo:
      return spdlog::set_level(spdlog::level::info);
    case LogLevel::kWarning:
      return spdlog::set_level(spdlog::level::warn);
    case LogLevel::kError:
      return spdlog::set_level(spdlog::level::err);
  }
}

void SetUpLogging(LogLevel level) {
  auto logger = spdlog::stderr_logger_st("gpumand");
  // systemd's journal adds the time itself.
  logger->set_formatter(
      MakeLogFormatter(std::getenv("JOURNAL_STREAM") ? "%l: %v" : "%Y-%m-%dT%H:%M:%S.%e %l: %v"));
  spdlog::set_default_logger(logger);
  SetLogLevel(level);
}

// The path of a program beside this one, in a build and in an installation.
std::filesystem::path ProgramBeside(const std::string& name) {
  std::error_code error;
  const auto directory = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& place : {directory / name, directory.parent_path() / "libexec/gpuman" / name,
                            directory.parent_path() / "lib/gpuman" / name}) {
    if (std::filesystem::exists(place, error)) return place;
  }
  return directory / name;
}

// The path of the shim, likewise. Empty if there is none, as in a build with sanitizers: the sanitizer's
// library has to be loaded first.
std::filesystem::path ShimLibrary() {
  std::error_code error;
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const auto& place : {prefix / "lib/libgpuman.so", prefix / GPUMAN_LIBDIR "/gpuman/libgpuman.so"}) {
    if (std::filesystem::exists(place, error)) return place;
  }
  return {};
}

// Each job takes descriptors, and a user's shell allows 1024. Jobs do not inherit this limit: each has the
// limit of the process that submitted it.
void RaiseDescriptorLimit() {
  constexpr rlim_t kWanted = 65'536;  // as packaging/gpumand.service.in has it
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, kWanted);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

int Complain(const base::Error& error) {
  std::fprintf(stderr, "gpumand: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "hint: %s\n", error.hint.c_str());
  return 1;
}

void WaitForSignals(boost::asio::io_context& loop, boost::asio::signal_set& signals, Daemon& daemon,
                    const Options& options) {
  signals.async_wait([&](boost::system::error_code error, int signal) {
    if (error) return;
    if (signal != SIGHUP) {
      spdlog::info("stopping; jobs go on");
      NotifyStopping();
      return loop.stop();
    }
    NotifyReloading();
    if (const auto config = Load(options)) {
      daemon.Reconfigure(*config);
      spdlog::info("configuration read again");
      SetLogLevel(config->log.level);
    } else {
      spdlog::error("the configuration is wrong and was not taken; the former one stays in force");
    }
    NotifyReady();
    WaitForSignals(loop, signals, daemon, options);
  });
}

int Serve(const Options& options, const Config& config) {
  base::ShareOneHeap();
  SetUpLogging(config.log.level);
  std::signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  if (options.user) {
    if (auto made = base::MakePrivateDirectory(config.state_dir); !made) return Complain(made.error());
    if (auto made = base::MakePrivateDirectory(config.socket.parent_path()); !made && options.socket.empty())
      return Complain(made.error());
  }
  boost::asio::io_context loop(1);
  boost::asio::signal_set signals(loop, SIGTERM, SIGINT, SIGHUP);
  auto daemon =
      Daemon::Start(loop, config,
                    {options.user, ProgramBeside("gpuman-keeper"), ShimLibrary(),
                     ProgramBeside("gpuman-mover"), ProgramBeside("gpuman-notifier"), GPUMAN_VERSION});
  if (!daemon) return Complain(WithUserMode(daemon.error(), options.user, ::geteuid()));
  // Only this thread gets the nice value. Other threads start the keepers, which must not inherit it.
  (void)::setpriority(PRIO_PROCESS, 0, kUrgency);
  WaitForSignals(loop, signals, **daemon, options);
  spdlog::info("gpumand {} serves {}", GPUMAN_VERSION, config.socket.string());
  NotifyReady();
  loop.run();
  (*daemon)->Stop();
  std::error_code ignored;
  std::filesystem::remove(config.socket, ignored);
  if ((*daemon)->left_a_thread()) {
    // A thread that has not ended may be in the driver. exit() would destroy the driver's state while the
    // thread uses it.
    spdlog::warn("a call of the driver or of the kernel has not come back; ending without waiting for it");
    spdlog::default_logger()->flush();
    ::_exit(0);
  }
  return 0;
}

}  // namespace

int RunProgram(int argc, char** argv) {
  Options options;
  CLI::App app{"The daemon of gpuman: holds GPU memory limits, keeps jobs, answers gpuman.", "gpumand"};
  app.footer(kFooter);
  app.set_version_flag("-v,--version", "gpumand " GPUMAN_VERSION, "Print the version and exit");
  app.get_option("--help")->description("Print this help and exit");
  app.add_option("--config", options.config, "Configuration file to read")
      ->envname("GPUMAN_CONFIG")
      ->option_text("FILE");
  app.add_option("--socket", options.socket, "Socket to listen on")
      ->envname("GPUMAN_SOCKET")
      ->option_text("PATH");
  app.add_option("--state-dir", options.state_dir, "Directory for jobs, logs and settings")
      ->envname("GPUMAN_STATE_DIR")
      ->option_text("DIR");
  app.add_flag("--user", options.user, "Serve only the user who starts it; needs no root");
  app.add_flag("--check-config", options.check_config,
               "Check the configuration file, show the lines that are wrong, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? base::FinishOutput("gpumand", 0) : kUsage;
  }
  const auto config = Load(options);
  if (!config) return config.error();
  if (options.check_config) {
    const auto file = Resolve(options).file;
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored))
      std::printf("%s: valid\n", file.c_str());
    else
      std::printf("%s: there is no such file; the defaults are used\n", file.c_str());
    return base::FinishOutput("gpumand", 0);
  }
  return Serve(options, *config);
}

}  // namespace gpuman::daemon
