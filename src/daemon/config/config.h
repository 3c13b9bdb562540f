// The daemon's configuration: a TOML file, every key optional. docs/configuration.md describes each key.
//
// Reading is pure: text in, values or a list of problems out, each with file, line and key. An unknown key is
// a problem too, and the message names the nearest known key: a misspelt limit must not be silently absent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/units.h"
#include "daemon/config/mps.h"
#include "daemon/config/tcp_address.h"
#include "device/profile.h"
#include "energy/cost.h"
#include "health/monitor.h"
#include "notify/settings.h"
#include "queue/settings.h"
#include "share/settings.h"

namespace gpuman::daemon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct UnmanagedLimit {
  std::optional<uid_t> uid;  // nullopt: every user without an entry of their own, except root
  base::SizeSpec ceiling;    // of the user's unmanaged processes on one GPU, together
  bool enforce = false;      // false: a warning
};

// What the daemon does with jobs on a GPU that becomes unhealthy.
enum class OnUnhealthy { kTell, kMove, kEnd };

struct Config {
  std::filesystem::path socket;
  std::filesystem::path state_dir;

  struct {
    LogLevel level = LogLevel::kInfo;
  } log;

  struct {
    std::string admin_group = "gpuman-admin";
    std::string submit_group = "gpuman";
  } access;

  struct {
    base::Millis rest{100};         // at rest, every GPU
    base::Millis fastest{5};        // near a limit
    base::Millis slow{1000};        // utilization, temperature, power
    base::Millis call_limit{2000};  // a driver call that takes longer hangs
    base::Millis retry{5000};       // no driver, or no GPU
  } sampling;

  struct {
    base::Millis grace{0};                              // between SIGTERM and SIGKILL at the hard limit
    std::optional<base::SizeSpec> reserve;              // kept free on every GPU
    std::map<std::string, base::SizeSpec> gpu_reserve;  // by UUID, instead
    bool suspend_on_pressure = false;                   // instead of ending a job for the reserve
    base::Millis suspend_patience{60'000};
    base::Millis return_after{10'000};  // memory must have been free for this long
    bool unmanaged_victims = false;
    std::vector<std::string> protected_names;  // besides the display servers
    base::Bytes overhead = base::MiB(256);     // contexts and code of a job that counts its memory itself
    base::Millis lowered_patience{10'000};     // for such a job to go below a lowered limit
  } guard;

  struct {
    bool preload = true;  // libgpuman.so into jobs, unless a job does not want it
  } shim;

  struct {
    base::SizeSpec host_memory{{}, 50};  // part of the host's memory, for all suspended jobs together
    base::Millis patience{10'000};       // for calls and GPU work to come to rest
  } suspend;

  struct {
    // Jobs without a setting of their own leave their GPU after so long without a call; absent: never. A
    // user's entry goes before the setting for all.
    std::optional<base::Millis> suspend_after;
    std::map<uid_t, std::optional<base::Millis>> users;
  } idle;

  share::SchedulerSettings share;  // the file sets some of them; the others stay as they are

  struct {
    std::vector<UnmanagedLimit> unmanaged;
    bool driver = true;  // NVIDIA's driver is told limits of jobs, where it can hold them
  } limits;

  struct {
    base::Millis stop_grace{10'000};  // between SIGTERM and SIGKILL when a job is stopped
    base::Bytes log_size = base::MiB(64);
    std::uint32_t log_rotations = 2;
    base::Millis keep_ended{30LL * 86'400'000};  // ended jobs are forgotten after this
    std::uint32_t keep_ended_count = 10'000;
    std::uint32_t running_jobs = 1'000;  // of a user but root, at once; 0: any number
    base::Bytes text = base::MiB(256);   // of a user's jobs that have not ended, but root's
  } jobs;

  struct {
    queue::SchedulingSettings pass;         // the file sets some of them; the others stay as they are
    std::uint32_t queued_jobs = 20'000;     // of a user without a quota of them; 0: any number
    base::Millis quota_window{86'400'000};  // of GPU-hours
    base::Millis keep_accounts{366LL * 86'400'000};  // of runs, for statistics
    base::Millis hoarder_idle{3'600'000};            // unmanaged processes are suspected after this; 0: never
  } queue;

  struct {
    health::MonitorSettings monitor;  // the file sets some of them; the others stay as they are
    std::filesystem::path kernel_log = "/dev/kmsg";  // empty: not read
    OnUnhealthy on_unhealthy = OnUnhealthy::kTell;
  } health;

  struct {
    base::Bytes disk = base::MiB(64);  // for all its files; 0: nothing is recorded
    base::Millis flush{60'000};        // between two writes
  } history;

  energy::Prices cost{.currency = "EUR"};

  struct {
    std::filesystem::path logs = "/var/log";  // where kubelet has containers/ and pods/
  } kubernetes;

  MpsSettings mps;

  struct {
    bool mend_drift = false;  // the daemon sets again settings that somebody else has changed
    base::Millis check{30'000};
    base::Millis call_limit{10'000};        // for a change, or for a read of a GPU's settings
    std::vector<device::Profile> profiles;  // besides those that are built in
  } device;

  struct {
    base::Millis check{30'000};  // between two checks of the GPUs with a wanted division
  } mig;

  struct {
    base::Millis initial_delay{1000};
    base::Millis max_delay{300'000};
    std::uint32_t max_restarts = 0;  // 0: without end
  } restart;

  struct {
    std::optional<TcpAddress> listen;  // serves /metrics and /healthz to everybody; nullopt: to nobody
  } metrics;

  struct {
    std::optional<TcpAddress> listen;  // of the loopback device; serves the page that everybody may see
  } web;

  struct {
    base::Millis keep{30LL * 86'400'000};
    std::uint32_t keep_count = 100'000;
  } events;

  notify::NotificationSettings notify;

  struct {
    base::Bytes max_body = base::MiB(4);
    std::uint32_t connections = 256;
    base::Millis request_timeout{10'000};
    base::Millis idle_timeout{60'000};
  } http;
};

struct ConfigProblem {
  std::string file;
  std::uint32_t line = 0;  // 0: the file as a whole
  std::string key;         // "guard.grace"; empty: not about one key
  std::string message;
};
// "gpumand.toml:12: guard.grace: 'soon' is not a time: …"
std::string Describe(const ConfigProblem& problem);

using UserLookup = std::function<std::optional<uid_t>(const std::string& name)>;
std::optional<uid_t> LookUpUser(const std::string& name);

// `defaults` gives the values that are not in the text. The list of problems is never empty.
tl::expected<Config, std::vector<ConfigProblem>> ParseConfig(std::string_view text, const std::string& file,
                                                             const Config& defaults,
                                                             const UserLookup& users = LookUpUser);

// Reads the file; one that does not exist gives the defaults unless it is `required`.
tl::expected<Config, std::vector<ConfigProblem>> LoadConfig(const std::filesystem::path& file, bool required,
                                                            const Config& defaults);

// Every key that may be written, as "guard.grace".
std::vector<std::string> ConfigKeys();

}  // namespace gpuman::daemon
