#include "plugins/kubernetes/program.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/output.h"
#include "plugins/kubernetes/plugin.h"

namespace gpuman::kubernetes {
namespace {

constexpr int kFailed = 1, kUsage = 2, kNoSuchFile = 4;  // as gpumand's
constexpr const char* kFooter =
    R"(SIGTERM ends it. SIGHUP makes it read its configuration again; if there are mistakes in it, the former one
stays in force.
Runs as root on each node, beside gpumand; packaging/kubernetes has it as a DaemonSet.)";

struct Options {
  std::string config = "/etc/gpuman/kube-plugin.toml";
  std::string kubelet, socket;
  bool check = false;
};

base::Result<Config> Load(const Options& options) {
  const auto text = base::ReadFile(options.config);
  if (!text && text.error().code == base::ErrorCode::kNotFound)
    return base::Fail(base::ErrorCode::kNotFound, fmt::format("there is no file {}", options.config));
  if (!text) return base::Fail(text.error());
  GPUMAN_ASSIGN(auto config, ParseConfig(*text, options.config));
  if (!options.kubelet.empty()) config.kubelet = options.kubelet;
  if (!options.socket.empty()) config.gpumand = options.socket;
  return config;
}

void WaitForSignals(boost::asio::signal_set& signals, boost::asio::io_context& loop, const Options& options,
                    Plugin& plugin) {
  signals.async_wait([&](boost::system::error_code error, int signal) {
    if (error) return;
    if (signal != SIGHUP) return loop.stop();
    if (auto config = Load(options)) {
      spdlog::info("{} is read again", options.config);
      plugin.Reload(std::move(*config));
    } else {
      spdlog::error("what held before goes on, since there is a mistake:\n{}", config.error().message);
    }
    WaitForSignals(signals, loop, options, plugin);
  });
}

int Serve(const Options& options, Config config) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("gpuman-kube-plugin"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  std::signal(SIGPIPE, SIG_IGN);
  boost::asio::io_context loop(1);
  boost::asio::signal_set signals(loop, SIGTERM, SIGINT, SIGHUP);
  auto plugin = Plugin::Start(loop, std::move(config));
  if (!plugin) {
    spdlog::error("{}", plugin.error().message);
    return kFailed;
  }
  WaitForSignals(signals, loop, options, **plugin);
  loop.run();
  spdlog::info("ended");
  return 0;
}

}  // namespace

int RunProgram(int argc, char** argv) {
  CLI::App app{"Offers the GPUs of this node to Kubernetes: whole, by memory, in turns, as MIG instances.",
               "gpuman-kube-plugin"};
  Options options;
  app.add_option("--config", options.config, "configuration file (TOML)")->capture_default_str();
  app.add_option("--kubelet", options.kubelet,
                 "kubelet's directory for device plugins, instead of the file's");
  app.add_option("--socket", options.socket, "gpumand's socket, instead of the file's");
  app.add_flag("--check-config", options.check, "check the configuration file and end");
  app.set_version_flag("--version", "gpuman-kube-plugin " GPUMAN_VERSION);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? base::FinishOutput("gpuman-kube-plugin", 0) : kUsage;
  }
  auto config = Load(options);
  if (!config) {
    std::fprintf(stderr, "%s\n", config.error().message.c_str());
    return config.error().code == base::ErrorCode::kNotFound ? kNoSuchFile : kUsage;
  }
  return options.check ? 0 : Serve(options, std::move(*config));
}

}  // namespace gpuman::kubernetes
