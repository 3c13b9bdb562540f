// doctor: what is right and wrong on this machine, and how to fix it.
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "api/ask.h"
#include "cli/check_config.h"
#include "cli/commands.h"
#include "cli/doctor_views.h"
#include "cli/take.h"
#include "doctor/gather.h"
#include "doctor/measure.h"

namespace gpuman::cli {
namespace {

constexpr const char* kGroup = "gpuman";  // the default of access.submit_group
constexpr std::chrono::seconds kDriverPatience{30};

struct DoctorOptions {
  bool strict = false;
  bool measure = false;
};

// Asks the driver on a thread of its own; the thread stays behind when a driver call does not return.
void AskDriver(doctor::Facts& facts) {
  const auto asked = std::make_shared<std::promise<doctor::Facts>>();  // the thread may outlive this function
  auto answer = asked->get_future();
  try {
    std::thread([asked] {
      doctor::Facts found;
      doctor::GatherDriver(found);
      asked->set_value(std::move(found));
    }).detach();
  } catch (const std::system_error& error) {
    facts.driver.problem = fmt::format("no thread could be started to ask it: {}", error.code().message());
    return;
  }
  if (answer.wait_for(kDriverPatience) == std::future_status::ready) {
    auto found = answer.get();
    facts.driver = std::move(found.driver);
    facts.gpus = std::move(found.gpus);
    facts.apart = std::move(found.apart);
    return;
  }
  facts.driver.problem = fmt::format("a driver call has not returned for {} s", kDriverPatience.count());
}

std::vector<doctor::IdleGpuProcess> IdleOf(const api::QueueInfo& info) {
  std::vector<doctor::IdleGpuProcess> idle;
  for (const auto& gpu : info.gpus)
    for (const auto& process : gpu.processes) {
      if (!process.hoarding || !gpu.index) continue;
      idle.push_back({static_cast<unsigned>(*gpu.index), process.pid, process.user.value_or("unknown"),
                      process.name.value_or("unknown"), process.memory,
                      process.idle.value_or(base::Millis(0))});
    }
  return idle;
}

std::vector<doctor::ReportedFault> FaultsOf(const api::HealthReport& report) {
  std::vector<doctor::ReportedFault> faults;
  for (const auto& gpu : report.gpus)
    for (const auto& fault : gpu.faults)
      if (!fault.acknowledged)
        faults.push_back({gpu.index ? fmt::format("GPU {}", *gpu.index) : gpu.uuid, fault.code, fault.text,
                          fault.state == "unhealthy"});
  return faults;
}

std::vector<doctor::MpsOfGpu> MpsOf(const api::MpsReport& report) {
  std::vector<doctor::MpsOfGpu> all;
  for (const auto& gpu : report.gpus)
    all.push_back({static_cast<unsigned>(gpu.index.value_or(0)), gpu.state, gpu.problem.value_or(""),
                   gpu.outside.size()});
  return all;
}

std::vector<doctor::KeptSetting> KeptOf(const api::DeviceList& list) {
  std::vector<doctor::KeptSetting> all;
  for (const auto& gpu : list.devices)
    for (const auto& setting : gpu.settings) {
      if (!setting.wanted) continue;
      std::string name = setting.name;
      std::replace(name.begin(), name.end(), '_', ' ');
      const bool clocks = setting.name == "memory_clocks" || setting.name == "graphics_clocks";
      all.push_back({static_cast<unsigned>(gpu.index), std::move(name), *setting.wanted,
                     setting.because.value_or("asked for"), setting.now, setting.drift,
                     clocks && *setting.wanted != "unlocked"});
    }
  return all;
}

void AskDaemon(CommandContext& session, doctor::Facts& facts) {
  facts.daemon.own_version = GPUMAN_VERSION;
  const auto client = session.RunningDaemon();
  const auto version =
      client ? client->Version() : base::Result<api::VersionView>(base::Fail(client.error()));
  if (!version) {
    facts.daemon.problem = version.error().message;
    return;
  }
  facts.daemon.version = version->version;
  facts.caller.user_daemon = version->user_mode;
  if (const auto report = api::Ask(*client, api::routes::kHealth)) facts.daemon.faults = FaultsOf(*report);
  if (const auto info = api::AskWithoutTimeout(*client, api::routes::kQueueInfo))
    facts.daemon.idle = IdleOf(*info);
  if (const auto report = api::Ask(*client, api::routes::kMps)) facts.daemon.mps = MpsOf(*report);
  if (const auto devices = api::AskWithoutTimeout(*client, api::routes::kDevices))
    facts.daemon.kept = KeptOf(*devices);
}

void ReadCaller(doctor::Facts& facts) {
  auto& caller = facts.caller;
  caller.root = ::geteuid() == 0;
  const passwd* const entry = ::getpwuid(::geteuid());
  caller.user = entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
  const group* const wanted = ::getgrnam(kGroup);
  caller.group_exists = wanted != nullptr;
  if (wanted == nullptr || entry == nullptr) return;
  const gid_t gid = wanted->gr_gid;
  std::vector<gid_t> groups(256);
  auto count = static_cast<int>(groups.size());
  ::getgrouplist(caller.user.c_str(), entry->pw_gid, groups.data(), &count);
  groups.resize(std::min(groups.size(), static_cast<std::size_t>(std::max(count, 0))));
  caller.in_group = std::find(groups.begin(), groups.end(), gid) != groups.end();
}

std::vector<std::filesystem::path> ShimPaths() {
  std::error_code error;
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  std::vector<std::filesystem::path> places;
  for (const char* place :
       {"lib", "lib/gpuman", "lib/x86_64-linux-gnu/gpuman", "lib/aarch64-linux-gnu/gpuman"})
    places.push_back(prefix / place / "libgpuman.so");
  return places;
}

std::filesystem::path StateOf(const CommandContext& session, const doctor::Facts& facts) {
  if (const auto set = session.environment()("GPUMAN_STATE_DIR")) return *set;
  const bool own = facts.daemon.problem.empty() ? facts.caller.user_daemon : !facts.caller.root;
  return own ? base::UserPaths().state : base::SystemPaths().state;
}

base::Result<int> Examine(CommandContext& session, const DoctorOptions& o) {
  doctor::Facts facts;
  AskDaemon(session, facts);
  ReadCaller(facts);
  doctor::GatherHost(facts, StateOf(session, facts));
  doctor::GatherShim(facts, ShimPaths());
  if (const auto checked = CheckConfigFile(session.environment(), std::nullopt))
    facts.config_problem = checked->status == 0 ? "" : checked->output;
  AskDriver(facts);
  if (o.measure && !facts.gpus.empty()) facts.cold_start = doctor::Measure(facts.gpus.front());
  const auto findings = doctor::Examine(facts);
  if (session.json)
    session.PrintJson(FindingsToJson(findings, facts.cold_start));
  else
    session.Print(RenderFindings(findings, facts.cold_start, session.style()));
  return o.strict && doctor::IsWrong(findings) ? kExitFailed : kExitDone;
}

}  // namespace

Command DoctorCommand() {
  const auto o = std::make_shared<DoctorOptions>();  // shared by the options and the action
  return {"doctor",
          "Check this machine, and show how to fix what is wrong",
          "gpuman doctor --strict || echo not healthy",
          {},
          {{"--strict", "", "Exit with status 1 if there is a warning or an error", take::Flag(o->strict)},
           {"--measure", "",
            "Measure the first CUDA call on the first GPU, and what persistence would save; two "
            "programs create a context there for a moment",
            take::Flag(o->measure)}},
          [o](CommandContext& session, const CommandLine&) { return Examine(session, *o); }};
}

}  // namespace gpuman::cli
