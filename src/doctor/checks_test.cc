#include "doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor/gpu_checks.h"
#include "driver/abi/nvml.h"

namespace gpuman::doctor {
namespace {

using ::testing::HasSubstr;
using enum Severity;
namespace abi = driver::abi;

// A machine on which nothing is wrong.
Facts Well() {
  Facts facts;
  facts.driver = {"", "580.159.04", "580.159.04", 13000, 13000, ""};
  GpuFacts gpu;
  gpu.uuid = "GPU-1";
  gpu.name = "NVIDIA H200";
  gpu.memory = base::GiB(140);
  gpu.persistence = true;
  gpu.ecc = gpu.ecc_pending = true;
  gpu.clock_reasons = abi::nvmlClocksEventReasonGpuIdle;
  gpu.thermal_ns = gpu.power_ns = 0;
  gpu.app_clock = gpu.default_app_clock = 1980;
  gpu.power_limit = gpu.default_power_limit = 700'000;
  gpu.link_width = gpu.most_link_width = 16;
  gpu.link_gen = gpu.most_link_gen = 5;
  gpu.utilization = 0;
  gpu.mig = gpu.mig_pending = false;
  facts.gpus = {gpu};
  facts.apart.emplace();
  facts.daemon = {"",
                  "1.0",
                  "1.0",
                  std::vector<IdleGpuProcess>{},
                  std::vector<ReportedFault>{},
                  std::vector<MpsOfGpu>{},
                  std::vector<KeptSetting>{}};
  facts.caller = {"ann", false, false, true, true};
  facts.shim = {"/usr/lib/gpuman/libgpuman.so", "", ""};
  facts.host.memory = base::GiB(512);
  facts.host.shm = base::GiB(64);
  facts.host.state_free = base::GiB(64);
  facts.host.state_dir = "/var/lib/gpuman";
  facts.host.memlock = UINT64_MAX;
  facts.host.huge_pages = "madvise";
  facts.host.cgroup2 = true;
  facts.host.controllers = {"cpu", "memory"};
  facts.config_problem = "";
  return facts;
}

// The worst finding of `check`.
Finding Of(const Facts& facts, std::string_view check) {
  const auto all = Examine(facts);
  Finding worst;
  bool found = false;
  for (const auto& finding : all) {
    if (finding.check != check || (found && finding.severity <= worst.severity)) continue;
    worst = finding;
    found = true;
  }
  EXPECT_TRUE(found) << check;
  return worst;
}

#define EXPECT_FINDS(facts, check, level, words)           \
  do {                                                     \
    const auto said = Of(facts, check);                    \
    EXPECT_EQ(said.severity, level) << said.text;          \
    EXPECT_THAT(said.text, HasSubstr(words));              \
    EXPECT_TRUE(level < kWarning || !said.remedy.empty()); \
  } while (false)

TEST(Doctor, OnAWellMachineEveryCheckIsFine) {
  const auto findings = Examine(Well());
  EXPECT_EQ(findings.size(), Checks().size());
  for (const auto& finding : findings)
    EXPECT_EQ(finding.severity, kFine) << finding.check << ": " << finding.text;
  EXPECT_FALSE(IsWrong(findings));
}

TEST(Doctor, EachCheckHasANameOfItsOwnAndOfNothingKnownItSaysSomething) {
  std::vector<std::string_view> names;
  for (const auto& check : Checks()) names.push_back(check.id);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  Facts nothing;
  nothing.driver.problem = "no library";
  nothing.daemon.problem = "no daemon is running";
  for (const auto& check : Checks()) EXPECT_NE(Of(nothing, check.id).text, "") << check.id;
}

TEST(Doctor, ADriverThatCannotBeUsedIsAnError) {
  Facts facts = Well();
  facts.driver.problem = "libnvidia-ml.so.1 is missing";
  EXPECT_FINDS(facts, "driver", kError, "libnvidia-ml.so.1 is missing");
  facts.driver.nvml.reset();
  EXPECT_FINDS(facts, "driver_versions", kError, "do not go with it");
}

TEST(Doctor, VersionsThatDisagreeAreAnError) {
  Facts facts = Well();
  facts.driver.kernel = "570.1";
  EXPECT_FINDS(facts, "driver_versions", kError, "570.1");
  facts = Well();
  facts.driver.libcuda = 12040;
  EXPECT_FINDS(facts, "driver_versions", kError,
               "libcuda is from a driver with CUDA 12.4, NVML from one with CUDA 13.0");
  facts.driver.libcuda.reset();
  EXPECT_FINDS(facts, "driver_versions", kError, "libcuda cannot be used");
  facts = Well();
  facts.driver.kernel.reset();  // a container may not show it
  EXPECT_FINDS(facts, "driver_versions", kFine, "agree");
}

TEST(Doctor, AGpuThatDoesNotAnswerIsAnErrorAndItsSettingsAreNotJudged) {
  Facts facts = Well();
  facts.gpus[0].problem = "GPU is lost";
  facts.gpus[0].persistence = false;
  EXPECT_FINDS(facts, "gpus", kError, "GPU is lost");
  EXPECT_FINDS(facts, "persistence", kUnknown, "n/a");
  facts.gpus.clear();
  EXPECT_FINDS(facts, "gpus", kError, "no GPU");
}

TEST(Doctor, FaultsThatTheDaemonKnowsAreShown) {
  Facts facts = Well();
  facts.daemon.faults = {{"GPU 0", "xid_79", "it fell off the bus", true}};
  EXPECT_FINDS(facts, "health", kError, "xid_79: it fell off the bus");
  facts.daemon.faults = {{"GPU 0", "pcie_replays", "many", false}};
  EXPECT_FINDS(facts, "health", kWarning, "pcie_replays");
  facts.daemon.faults.reset();
  EXPECT_FINDS(facts, "health", kUnknown, "n/a");
}

TEST(Doctor, PersistenceThatIsOffIsAWarningWithWhatItCosts) {
  Facts facts = Well();
  facts.gpus[0].persistence = false;
  EXPECT_FINDS(facts, "persistence", kWarning, "the first CUDA call");
  EXPECT_EQ(Of(facts, "persistence").remedy, "gpuman device persistence on --gpu 0");
  facts.cold_start = ColdStart{0, base::Millis(2800), base::Millis(300), ""};
  EXPECT_FINDS(facts, "persistence", kWarning, "save 2.5s each time");
}

TEST(Doctor, EccThatIsOffOrWaitsForAResetIsAWarning) {
  Facts facts = Well();
  facts.gpus[0].ecc_pending = false;
  EXPECT_FINDS(facts, "ecc", kWarning, "on and turns off with the next reset");
  facts.gpus[0].ecc = false;
  EXPECT_FINDS(facts, "ecc", kWarning, "ECC is off");
  facts.gpus[0].ecc.reset();
  EXPECT_FINDS(facts, "ecc", kUnknown, "n/a");
}

TEST(Doctor, ThrottlingIsAnErrorAndAPowerLimitUnderLoadIsNot) {
  Facts facts = Well();
  facts.gpus[0].clock_reasons =
      abi::nvmlClocksThrottleReasonHwThermalSlowdown | abi::nvmlClocksThrottleReasonHwSlowdown;
  EXPECT_FINDS(facts, "throttling", kError, "heat (hardware), the hardware's slowdown");
  facts.gpus[0].clock_reasons = abi::nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
  EXPECT_FINDS(facts, "throttling", kError, "power supply");
  facts.gpus[0].clock_reasons = abi::nvmlClocksEventReasonSwPowerCap;
  EXPECT_FINDS(facts, "throttling", kNote, "power limit");
}

TEST(Doctor, HeatSinceTheDriverWasLoadedIsAWarningOnceItIsMoreThanAMoment) {
  Facts facts = Well();
  facts.gpus[0].thermal_ns = 999'999'999;
  EXPECT_FINDS(facts, "throttled_before", kFine, "no GPU was throttled");
  facts.gpus[0].thermal_ns = 90'000'000'000;
  EXPECT_FINDS(facts, "throttled_before", kWarning, "heat throttled it");
}

TEST(Doctor, ClocksThatSomebodySetAreAWarning) {
  Facts facts = Well();
  facts.gpus[0].app_clock = 1200;
  EXPECT_FINDS(facts, "clocks", kWarning, "1200 MHz, by default it is 1980 MHz");
  facts = Well();
  facts.gpus[0].clock_reasons = abi::nvmlClocksEventReasonApplicationsClocksSetting;
  EXPECT_FINDS(facts, "clocks", kWarning, "somebody has set its clocks");
}

TEST(Doctor, SettingsThatTheDaemonKeepsAreReported) {
  Facts facts = Well();
  facts.daemon.kept = std::vector<KeptSetting>{};
  EXPECT_FINDS(facts, "settings", kFine, "as wanted");
  facts.daemon.kept =
      std::vector<KeptSetting>{{0, "graphics clocks", "1200,1200", "asked for", {}, false, true}};
  EXPECT_FINDS(facts, "settings", kNote, "graphics clocks are locked to 1200,1200 MHz: asked for");
  facts.daemon.kept = std::vector<KeptSetting>{{0, "power", "250W", "asked for", "700W", true, false}};
  EXPECT_FINDS(facts, "settings", kWarning, "power: 250W is wanted (asked for), and it is 700W");
  const struct {
    KeptSetting kept;
    const char* remedy;
  } table[] = {
      {{0, "persistence", "on", "asked for", "off", true, false}, "gpuman device persistence on --gpu 0"},
      {{0, "compute mode", "default", "asked for", "prohibited", true, false},
       "gpuman device compute-mode default --gpu 0"},
      {{1, "power", "250W", "asked for", "700W", true, false}, "gpuman device power set 250W --gpu 1"},
      {{0, "memory clocks", "2201,2201", "asked for", {}, true, false},
       "gpuman device clocks lock --memory 2201,2201 --gpu 0"},
      {{0, "graphics clocks", "1200,1400", "asked for", {}, true, false},
       "gpuman device clocks lock --graphics 1200,1400 --gpu 0"},
      {{0, "ecc", "on", "asked for", "off", true, false}, "gpuman device ecc on --gpu 0"},
      {{0, "power", "250W", "profile night", "700W", true, false}, "gpuman device show says more"},
  };
  for (const auto& row : table) {
    facts.daemon.kept = std::vector<KeptSetting>{row.kept};
    EXPECT_TRUE(CheckSettings(facts).front().remedy.starts_with(row.remedy)) << row.remedy;
  }
  facts.daemon.kept.reset();
  EXPECT_FINDS(facts, "settings", kUnknown, "n/a without the daemon");
}

TEST(Doctor, APowerLimitBelowTheDefaultIsANote) {
  Facts facts = Well();
  facts.gpus[0].power_limit = 400'000;
  EXPECT_FINDS(facts, "power_limit", kNote, "400 W, by default it is 700 W");
  facts.gpus[0].power_limit = 700'000;
  EXPECT_FINDS(facts, "power_limit", kFine, "by default");
}

TEST(Doctor, GpusThatDoNotReachEachOtherAreNamedWithWhatThatMeans) {
  auto facts = Well();
  facts.gpus.push_back(facts.gpus[0]);
  EXPECT_FINDS(facts, "peer_access", kFine, "all GPUs reach each other");
  facts.apart = {{0, 1}};
  EXPECT_FINDS(facts, "peer_access", kNote, "0 and 1; the memory of a process that sees two such GPUs");
  facts.apart = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  EXPECT_FINDS(facts, "peer_access", kNote, "1 and 2, and 2 more pairs");
  facts.apart.reset();
  EXPECT_FINDS(facts, "peer_access", kUnknown, "n/a");
}

TEST(Doctor, ALinkNarrowerThanItCouldBeIsAWarningAndASlowOneOnlyUnderLoad) {
  Facts facts = Well();
  facts.gpus[0].link_width = 8;
  EXPECT_FINDS(facts, "pcie_link", kWarning, "8 of 16 lanes");
  facts = Well();
  facts.gpus[0].link_gen = 1;
  EXPECT_FINDS(facts, "pcie_link", kFine, "as wide");
  facts.gpus[0].utilization = 90;
  EXPECT_FINDS(facts, "pcie_link", kWarning, "generation 1 while it works");
}

TEST(Doctor, MigThatIsHalfConfiguredIsAWarning) {
  Facts facts = Well();
  facts.gpus[0].mig_pending = true;
  EXPECT_FINDS(facts, "mig", kWarning, "off and turns on with the next reset");
  facts.gpus[0].mig = true;
  facts.gpus[0].mig_instances = 0;
  EXPECT_FINDS(facts, "mig", kWarning, "no instance");
  facts.gpus[0].mig_instances = 2;
  EXPECT_FINDS(facts, "mig", kFine, "");
}

TEST(Doctor, MpsThatIsDeadForeignOrGoneAroundIsTold) {
  Facts facts = Well();
  facts.daemon.mps = {{0, "dead", "it ended", 0}};
  EXPECT_FINDS(facts, "mps", kError, "it ended");
  facts.daemon.mps = {{0, "foreign", "of ann", 0}};
  EXPECT_FINDS(facts, "mps", kNote, "did not start");
  facts.daemon.mps = {{0, "running", "", 2}};
  EXPECT_FINDS(facts, "mps", kWarning, "2 processes run beside");
  facts.daemon.mps = {{0, "running", "it does not answer", 0}};
  EXPECT_FINDS(facts, "mps", kWarning, "does not answer");
  facts.daemon.mps = {{0, "running", "", 0}, {1, "off", "", 0}};
  EXPECT_FINDS(facts, "mps", kFine, "MPS works where it runs");
}

TEST(Doctor, IdleProcessesAreNamedWithTheirOwner) {
  Facts facts = Well();
  facts.daemon.idle = {{0, 4711, "bob", "python", base::GiB(40), std::chrono::hours(3)}};
  EXPECT_FINDS(facts, "idle_processes", kWarning, "pid 4711 (python, user bob) has held 40GiB for 3h");
}

TEST(Doctor, TheDaemonsStateAndVersionAreTold) {
  Facts facts = Well();
  facts.daemon.problem = "no daemon is running";
  EXPECT_FINDS(facts, "daemon", kError, "no daemon is running");
  EXPECT_THAT(Of(facts, "daemon").remedy, HasSubstr("systemctl start gpumand"));
  facts.caller.in_group = false;
  EXPECT_THAT(Of(facts, "daemon").remedy, HasSubstr("usermod -aG gpuman ann"));
  facts = Well();
  facts.daemon.version = "0.9";
  EXPECT_FINDS(facts, "daemon", kWarning, "the daemon is 0.9, this program is 1.0");
}

TEST(Doctor, AUserWhoMayNotSubmitIsToldHowToBeAllowed) {
  Facts facts = Well();
  facts.caller.in_group = false;
  EXPECT_FINDS(facts, "access", kWarning, "ann is not in the group gpuman");
  EXPECT_THAT(Of(facts, "access").remedy, HasSubstr("usermod -aG gpuman ann"));
  facts.caller.group_exists = false;
  EXPECT_FINDS(facts, "access", kWarning, "no group gpuman");
  facts.caller.root = true;
  EXPECT_FINDS(facts, "access", kFine, "root");
  facts.caller = {"ann", false, true, false, false};
  EXPECT_FINDS(facts, "access", kFine, "your own");
}

TEST(Doctor, AWrongConfigurationIsAnError) {
  Facts facts = Well();
  facts.config_problem = "gpumand.toml:3: guard.grac: no such key";
  EXPECT_FINDS(facts, "config", kError, "guard.grac");
  facts.config_problem.reset();
  EXPECT_FINDS(facts, "config", kUnknown, "n/a");
}

TEST(Doctor, AShimThatIsMissingBrokenOrInCompanyIsTold) {
  Facts facts = Well();
  facts.shim.system_preload = "/usr/lib/other.so";
  EXPECT_FINDS(facts, "shim", kNote, "/usr/lib/other.so");
  facts.shim.problem = "wrong ELF class";
  EXPECT_FINDS(facts, "shim", kError, "wrong ELF class");
  facts.shim.path.clear();
  EXPECT_FINDS(facts, "shim", kWarning, "no libgpuman.so");
}

TEST(Doctor, AHostTooSmallToTakeWhatAGpuHoldsIsANote) {
  Facts facts = Well();
  facts.host.memory = base::GiB(125);
  EXPECT_FINDS(facts, "host_memory", kNote, "125GiB");
  facts.host.memory.reset();
  EXPECT_FINDS(facts, "host_memory", kUnknown, "n/a");
}

TEST(Doctor, TheMachineAroundIsJudged) {
  Facts facts = Well();
  facts.host.memlock = 65'536;
  EXPECT_FINDS(facts, "memlock", kNote, "64KiB");
  facts.host.shm = base::MiB(64);
  EXPECT_FINDS(facts, "shared_memory", kWarning, "64MiB");
  facts.host.huge_pages = "never";
  EXPECT_FINDS(facts, "huge_pages", kNote, "off");
  facts.host.controllers = {"cpu"};
  EXPECT_FINDS(facts, "cgroups", kNote, "cgroup v2 lacks memory (it has the controllers cpu)");
  facts.host.cgroup2 = false;
  EXPECT_FINDS(facts, "cgroups", kWarning, "no cgroup v2");
  facts.host.state_free = base::MiB(10);
  EXPECT_FINDS(facts, "state_disk", kWarning, "10MiB left");
}

}  // namespace
}  // namespace gpuman::doctor
