#include "daemon/config/config.h"

#include <pwd.h>

#include <algorithm>

#include "base/file.h"
#include "base/toml_check.h"
#include "daemon/config/device.h"
#include "daemon/config/notify.h"
#include "daemon/config/toml_reader.h"
#include "spec/option_rules.h"

namespace gpuman::daemon {
namespace {

using base::Millis;

void ReadLog(TomlReader& in, Config& config) {
  std::string word;
  in.Text("log.level", word);
  if (word.empty()) return;
  if (word == "debug")
    config.log.level = LogLevel::kDebug;
  else if (word == "info")
    config.log.level = LogLevel::kInfo;
  else if (word == "warning")
    config.log.level = LogLevel::kWarning;
  else if (word == "error")
    config.log.level = LogLevel::kError;
  else
    in.Problem(in.Take("log.level"), "log.level",
               fmt::format("'{}' is none of debug, info, warning, error", word));
}

void ReadSampling(TomlReader& in, Config& config) {
  auto& s = config.sampling;
  in.Time("sampling.rest", s.rest, Millis(10), Millis(10'000));
  in.Time("sampling.fastest", s.fastest, Millis(1), Millis(1000));
  in.Time("sampling.slow", s.slow, Millis(100), Millis(60'000));
  in.Time("sampling.call_limit", s.call_limit, Millis(100), Millis(60'000));
  in.Time("sampling.retry", s.retry, Millis(100), Millis(600'000));
  if (s.fastest > s.rest)
    in.Problem(in.Take("sampling.fastest"), "sampling.fastest", "is longer than sampling.rest");
}

void ReadGuard(TomlReader& in, Config& config) {
  in.Time("guard.grace", config.guard.grace, Millis(0), kDay);
  in.Spec("guard.reserve", config.guard.reserve);
  in.Specs("guard.gpu_reserve", config.guard.gpu_reserve);
  std::string on_pressure = config.guard.suspend_on_pressure ? "suspend" : "end";
  in.Text("guard.on_pressure", on_pressure);
  if (on_pressure != "end" && on_pressure != "suspend")
    in.Problem(in.Take("guard.on_pressure"), "guard.on_pressure",
               fmt::format("'{}' is neither end nor suspend", on_pressure));
  config.guard.suspend_on_pressure = on_pressure == "suspend";
  in.Time("guard.suspend_patience", config.guard.suspend_patience, Millis(100), kDay);
  in.Time("guard.return_after", config.guard.return_after, Millis(0), kDay);
  in.Flag("guard.unmanaged_victims", config.guard.unmanaged_victims);
  in.Names("guard.protected", config.guard.protected_names);
  in.Size("guard.overhead", config.guard.overhead, base::Bytes{0}, base::GiB(1024));
  in.Time("guard.lowered_patience", config.guard.lowered_patience, Millis(0), kDay);
}

void ReadSuspend(TomlReader& in, Config& config) {
  std::optional<base::SizeSpec> host_memory = config.suspend.host_memory;
  in.Spec("suspend.host_memory", host_memory);
  if (!host_memory)
    in.Problem(in.Take("suspend.host_memory"), "suspend.host_memory",
               "takes a size such as \"64GiB\" or \"50%\" of the host's memory");
  config.suspend.host_memory = host_memory.value_or(config.suspend.host_memory);
  in.Time("suspend.patience", config.suspend.patience, Millis(100), Millis(60'000));
}

void ReadIdle(TomlReader& in, Config& config, const UserLookup& users) {
  constexpr Millis kShortest = spec::kShortestIdle, kLongest = 3650 * kDay;
  in.TimeOrNever("idle.suspend_after", config.idle.suspend_after, kShortest, kLongest);
  std::map<std::string, std::optional<Millis>> by_name;
  in.TimesOrNever("idle.users", by_name, kShortest, kLongest);
  for (const auto& [name, after] : by_name) {
    if (const auto uid = users(name))
      config.idle.users[*uid] = after;
    else
      in.Problem(in.Take("idle.users"), "idle.users." + name, fmt::format("there is no user '{}'", name));
  }
}

template <typename T, typename Parse>
void ReadWord(TomlReader& in, const char* key, T& target, Parse parse) {
  std::string word;
  in.Text(key, word);
  if (word.empty()) return;
  const auto value = parse(word);
  if (!value) return in.Problem(in.Take(key), key, value.error().message);
  target = *value;
}

void ReadShare(TomlReader& in, Config& config) {
  auto& s = config.share;
  ReadWord(in, "share.policy", s.policy, share::ParsePolicy);
  in.Time("share.quantum_min", s.quantum_min, Millis(10), kDay);
  in.Time("share.quantum_max", s.quantum_max, Millis(10), kDay);
  std::optional<base::SizeSpec> overhead = base::SizeSpec{{}, s.overhead_target * 100};
  in.Spec("share.overhead", overhead);
  if (!overhead || !overhead->IsRelative())
    in.Problem(in.Take("share.overhead"), "share.overhead", "takes a percentage such as \"5%\"");
  else
    s.overhead_target = overhead->percent / 100;
  in.Time("share.idle", s.idle, Millis(2), Millis(60'000));
  in.Time("share.interactive_wait", s.interactive_wait, Millis(10), kDay);
  in.Flag("share.pause", s.pause);
  ReadWord(in, "share.compute", s.compute, share::ParseConcurrency);
  ReadWord(in, "share.memory", s.memory, share::ParseMemory);
  in.Flag("share.managed_turns", s.managed_turns);
  in.Time("share.compute_quantum", s.compute_quantum, Millis(10), kDay);
  in.Spec("share.capacity", s.capacity);
  in.Specs("share.gpu_capacity", s.capacity_of);
  ReadWord(in, "share.on_no_yield", s.on_no_yield, share::ParseOnNoYield);
  in.Time("share.yield_limit", s.yield_limit, Millis(100), kDay);
  in.Flag("share.step", s.step);
  ReadWord(in, "share.on_no_answer", s.on_no_answer, share::ParseOnNoAnswer);
  in.Time("share.answer_limit", s.answer_limit, Millis(100), kDay);
  in.Time("share.retry", s.retry, Millis(100), kDay);
  ReadWord(in, "share.unchanged", s.unchanged, share::ParseUnchanged);
  if (s.quantum_max < s.quantum_min)
    in.Problem(in.Take("share.quantum_max"), "share.quantum_max", "is shorter than share.quantum_min");
}

// [[limits.unmanaged]] user = "alice" | "*", ceiling = "4GiB", action = "warn" | "enforce"
std::optional<UnmanagedLimit> ReadUnmanagedLimit(TomlReader& in, const toml::table& table,
                                                 const UserLookup& users) {
  constexpr const char* kKey = "limits.unmanaged";
  for (const auto& [name, node] : table) {
    if (name != "user" && name != "ceiling" && name != "action") {
      in.Problem(&node, fmt::format("{}.{}", kKey, name.str()),
                 "there is no such key; there are user, ceiling and action");
      return std::nullopt;
    }
  }
  const auto text = [&](const char* name) { return table[name].value_exact<std::string>(); };
  const auto fail = [&](const char* name, std::string message) {
    const auto* node = table.get(name);
    in.Problem(node ? node : &table, fmt::format("{}.{}", kKey, name), std::move(message));
    return std::nullopt;
  };
  UnmanagedLimit limit;
  const auto user = text("user");
  if (!user) return fail("user", "is missing: write a user's name, or \"*\" for everybody else");
  if (*user != "*") {
    limit.uid = users(*user);
    if (!limit.uid) return fail("user", fmt::format("there is no user '{}'", *user));
  }
  const auto ceiling = text("ceiling");
  if (!ceiling) return fail("ceiling", "is missing: write a size such as \"4GiB\" or \"25%\"");
  const auto size = base::ParseSize(*ceiling);
  if (!size) return fail("ceiling", size.error().message);
  limit.ceiling = *size;
  const auto action = text("action").value_or("warn");
  if (action != "warn" && action != "enforce")
    return fail("action", fmt::format("'{}' is neither warn nor enforce", action));
  limit.enforce = action == "enforce";
  return limit;
}

base::Result<bool> ParseLimitsDriver(std::string_view word) {
  if (word == "auto" || word == "off") return word == "auto";
  return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("'{}' is neither auto nor off", word));
}

void ReadLimits(TomlReader& in, Config& config, const UserLookup& users) {
  ReadWord(in, "limits.driver", config.limits.driver, ParseLimitsDriver);
  const auto* node = in.Take("limits.unmanaged");
  if (!node) return;
  const auto* list = node->as_array();
  if (!list || !list->is_homogeneous(toml::node_type::table))
    return in.Problem(node, "limits.unmanaged", "is written as [[limits.unmanaged]], once for each user");
  for (const auto& entry : *list) {
    auto limit = ReadUnmanagedLimit(in, *entry.as_table(), users);
    if (!limit) continue;
    for (const auto& other : config.limits.unmanaged) {
      if (other.uid == limit->uid) in.Problem(&entry, "limits.unmanaged.user", "has two entries");
    }
    config.limits.unmanaged.push_back(*limit);
  }
}

void ReadJobs(TomlReader& in, Config& config) {
  in.Time("jobs.stop_grace", config.jobs.stop_grace, Millis(0), kDay);
  in.Size("jobs.log_size", config.jobs.log_size, base::KiB(4), base::GiB(1024));
  in.Count("jobs.log_rotations", config.jobs.log_rotations, 0, 100);
  in.Time("jobs.keep_ended", config.jobs.keep_ended, Millis(0), 36'500 * kDay);
  in.Count("jobs.keep_ended_count", config.jobs.keep_ended_count, 0, 10'000'000);
  in.Count("jobs.running_jobs", config.jobs.running_jobs, 0, 10'000'000);
  in.Size("jobs.text", config.jobs.text, base::MiB(16), base::GiB(1024));
  in.Time("restart.initial_delay", config.restart.initial_delay, Millis(1), kDay);
  in.Time("restart.max_delay", config.restart.max_delay, Millis(1), 30 * kDay);
  in.Count("restart.max_restarts", config.restart.max_restarts, 0, 1'000'000'000);
  if (config.restart.max_delay < config.restart.initial_delay)
    in.Problem(in.Take("restart.max_delay"), "restart.max_delay", "is shorter than restart.initial_delay");
}

void ReadQueue(TomlReader& in, Config& config) {
  auto& pass = config.queue.pass;
  in.Time("queue.half_life", pass.half_life, Millis(3'600'000), 3650 * kDay);
  in.Time("queue.fair_share", pass.fair_share, Millis(0), 3650 * kDay);
  in.Time("queue.priority_step", pass.priority_step, Millis(0), kDay);
  in.Time("queue.short_job", pass.short_job, Millis(0), 3650 * kDay);
  in.Time("queue.short_scale", pass.short_scale, Millis(1000), 3650 * kDay);
  in.Time("queue.unlimited_as", pass.unlimited_as, Millis(1000), 3650 * kDay);
  in.Time("queue.presumed_time", pass.presumed, Millis(1000), 3650 * kDay);
  in.Time("queue.patience", pass.patience, Millis(0), 3650 * kDay);
  in.Count("queue.keep_ratio", pass.keep_ratio, 0, 1000);
  in.Time("queue.slack", pass.slack, Millis(0), 3650 * kDay);
  in.Flag("queue.preempt", pass.preempt);
  in.Time("queue.preempt_wait", pass.preempt_wait, Millis(0), 3650 * kDay);
  in.Time("queue.preempt_after", pass.preempt_after, Millis(0), kDay);
  in.Flag("queue.move", pass.move);
  in.Flag("queue.share_unmanaged", pass.share_unmanaged);
  in.Count("queue.queued_jobs", config.queue.queued_jobs, 0, 10'000'000);
  in.Time("queue.quota_window", config.queue.quota_window, Millis(3'600'000), 3650 * kDay);
  in.Time("queue.keep_accounts", config.queue.keep_accounts, kDay, 36'500 * kDay);
  in.Time("queue.hoarder_idle", config.queue.hoarder_idle, Millis(0), 3650 * kDay);
}

void ReadHealth(TomlReader& in, Config& config) {
  std::string log = config.health.kernel_log.string();
  in.Text("health.kernel_log", log, EmptyText::kAllowed);
  config.health.kernel_log = log;
  std::string word;
  in.Text("health.on_unhealthy", word);
  if (word == "tell" || word == "move" || word == "end")
    config.health.on_unhealthy = word == "tell"   ? OnUnhealthy::kTell
                                 : word == "move" ? OnUnhealthy::kMove
                                                  : OnUnhealthy::kEnd;
  else if (!word.empty())
    in.Problem(in.Take("health.on_unhealthy"), "health.on_unhealthy",
               fmt::format("'{}' is none of tell, move, end", word));
  const auto* const node = in.Take("health.ignored_xids");
  if (!node) return;
  const auto* const list = node->as_array();
  if (!list) return in.Problem(node, "health.ignored_xids", "takes a list of numbers such as [13, 31]");
  config.health.monitor.ignored_xids.clear();
  for (const auto& entry : *list) {
    const auto xid = entry.value_exact<std::int64_t>();
    if (!xid || *xid < 1 || *xid > 100'000)
      return in.Problem(&entry, "health.ignored_xids", "takes Xids, whole numbers from 1");
    config.health.monitor.ignored_xids.insert(static_cast<unsigned>(*xid));
  }
}

void ReadHistory(TomlReader& in, Config& config) {
  const auto* const node = in.Take("history.disk");
  const bool off =
      node && (node->value_exact<std::int64_t>() == 0 || node->value_exact<std::string>() == "0");
  if (off)
    config.history.disk = {};
  else
    in.Size("history.disk", config.history.disk, base::MiB(1), base::GiB(1024));
  in.Time("history.flush", config.history.flush, Millis(1000), Millis(300'000));
}

void ReadPrice(TomlReader& in, const char* key, std::optional<double>& price) {
  const auto* const node = in.Take(key);
  if (!node) return;
  const auto value = node->value<double>();
  if (!node->is_number() || !(*value >= 0 && *value <= 1e6))
    return in.Problem(node, key, "takes a price such as 0.25, from 0 to 1000000");
  price = *value;
}

void ReadCost(TomlReader& in, energy::Prices& cost) {
  ReadPrice(in, "cost.gpu_hour", cost.gpu_hour);
  ReadPrice(in, "cost.kwh", cost.kwh);
  in.Text("cost.currency", cost.currency);
}

// "" is nowhere.
void ReadAddress(TomlReader& in, const char* key, std::optional<TcpAddress>& target) {
  std::string text;
  in.Text(key, text, EmptyText::kAllowed);
  if (text.empty()) return;
  auto address = ParseTcpAddress(text);
  if (!address) return in.Problem(in.Take(key), key, address.error().message);
  target = std::move(*address);
}

void ReadWeb(TomlReader& in, Config& config) {
  constexpr const char* kListen = "web.listen";
  ReadAddress(in, kListen, config.web.listen);
  if (!config.web.listen || IsLoopback(*config.web.listen)) return;
  in.Problem(in.Take(kListen), kListen,
             fmt::format("'{}': the page is served on this machine alone, as \"127.0.0.1:8790\"; from other "
                         "machines it is reached by ssh -L, or by a web server that knows its users",
                         config.web.listen->text));
}

base::Result<MpsProtocolSetting> ParseMpsProtocol(std::string_view word) {
  if (word == "auto") return MpsProtocolSetting::kAuto;
  if (word == "2") return MpsProtocolSetting::k2;
  if (word == "3") return MpsProtocolSetting::k3;
  return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("'{}' is none of auto, 2 and 3", word));
}

void ReadMps(TomlReader& in, MpsSettings& mps) {
  in.Text("mps.control", mps.control, EmptyText::kAllowed);
  if (!mps.control.empty() && mps.control.front() != '/')
    in.Problem(in.Take("mps.control"), "mps.control", "takes the whole path of nvidia-cuda-mps-control");
  ReadWord(in, "mps.protocol", mps.protocol, ParseMpsProtocol);
  in.Flag("mps.auto_start", mps.auto_start);
  in.Flag("mps.restart", mps.restart);
  in.Time("mps.look", mps.look, Millis(100), Millis(600'000));
}

void ReadHttp(TomlReader& in, Config& config) {
  in.Size("http.max_body", config.http.max_body, base::KiB(64), base::GiB(1));
  in.Count("http.connections", config.http.connections, 8, 100'000);
  in.Time("http.request_timeout", config.http.request_timeout, Millis(100), Millis(600'000));
  in.Time("http.idle_timeout", config.http.idle_timeout, Millis(100), kDay);
}

void ReadAll(TomlReader& in, Config& config, const UserLookup& users) {
  in.Path("socket", config.socket);
  in.Path("state_dir", config.state_dir);
  ReadLog(in, config);
  in.Text("access.admin_group", config.access.admin_group);
  in.Text("access.submit_group", config.access.submit_group);
  ReadSampling(in, config);
  ReadGuard(in, config);
  ReadLimits(in, config, users);
  in.Flag("shim.preload", config.shim.preload);
  ReadSuspend(in, config);
  ReadIdle(in, config, users);
  ReadShare(in, config);
  ReadJobs(in, config);
  ReadQueue(in, config);
  ReadDevice(in, config);
  ReadHealth(in, config);
  ReadHistory(in, config);
  ReadCost(in, config.cost);
  in.Time("mig.check", config.mig.check, Millis(100), kDay);
  in.Path("kubernetes.logs", config.kubernetes.logs);
  ReadMps(in, config.mps);
  in.Time("events.keep", config.events.keep, Millis(0), 36'500 * kDay);
  in.Count("events.keep_count", config.events.keep_count, 100, 100'000'000);
  ReadNotify(in, config.notify);
  ReadAddress(in, "metrics.listen", config.metrics.listen);
  ReadWeb(in, config);
  ReadHttp(in, config);
}

}  // namespace

std::string Describe(const ConfigProblem& problem) {
  std::string text = problem.file;
  if (problem.line > 0) text += fmt::format(":{}", problem.line);
  if (!problem.key.empty()) text += ": " + problem.key;
  return text + ": " + problem.message;
}

std::optional<uid_t> LookUpUser(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return std::nullopt;
  return entry.pw_uid;
}

tl::expected<Config, std::vector<ConfigProblem>> ParseConfig(std::string_view text, const std::string& file,
                                                             const Config& defaults,
                                                             const UserLookup& users) {
  const auto mistake = base::FindTomlMistake(text);
  toml::table table;
  try {
    table = toml::parse(base::Readable(text, mistake), file);
  } catch (const toml::parse_error& error) {
    return tl::unexpected(std::vector<ConfigProblem>{
        {file, static_cast<std::uint32_t>(error.source().begin.line), "", std::string(error.description())}});
  }
  if (mistake)
    return tl::unexpected(
        std::vector<ConfigProblem>{{file, static_cast<std::uint32_t>(mistake->line), "", mistake->message}});
  Config config = defaults;
  TomlReader in(table, file);
  ReadAll(in, config, users);
  in.RefuseUnknown();
  auto problems = in.TakeProblems();
  std::stable_sort(problems.begin(), problems.end(),
                   [](const ConfigProblem& a, const ConfigProblem& b) { return a.line < b.line; });
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return config;
}

tl::expected<Config, std::vector<ConfigProblem>> LoadConfig(const std::filesystem::path& file, bool required,
                                                            const Config& defaults) {
  auto text = base::ReadFile(file, 1u << 20);
  if (!text && text.error().code == base::ErrorCode::kNotFound && !required) return defaults;
  if (!text) return tl::unexpected(std::vector<ConfigProblem>{{file.string(), 0, "", text.error().message}});
  auto config = ParseConfig(*text, file.string(), defaults);
  if (!config) return config;
  if (auto problems = ProblemsOfFiles(config->notify, file.string()); !problems.empty())
    return tl::unexpected(std::move(problems));
  return config;
}

std::vector<std::string> ConfigKeys() {
  const toml::table empty;
  TomlReader in(empty, "");
  Config config;
  ReadAll(in, config, [](const std::string&) { return std::nullopt; });
  return in.known();
}

}  // namespace gpuman::daemon
