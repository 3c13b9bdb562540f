#include "metrics/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <regex>
#include <set>
#include <sstream>

#include "metrics/families.h"

namespace gpuman::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kUuid = "GPU-0";

gpu::GpuSample FullSample() {
  gpu::GpuSample sample;
  sample.uuid = kUuid;
  sample.taken_at = base::MonoTime(std::chrono::seconds(5));
  sample.memory = gpu::GpuMemoryInfo{base::GiB(8), base::GiB(3), base::GiB(4), base::GiB(1)};
  sample.processes.emplace().push_back({1, base::GiB(3), gpu::ProcessKind::kCompute});
  sample.slow = {50, 20, 61, 123.5, gpu::EnergyReading{2500, {}}};
  sample.health.pcie_replays = 3;
  sample.health.double_bit_errors = 0;
  sample.health.hardware_slowdown = false;
  sample.health.remap_failed = false;
  sample.health.retirement_pending = false;
  sample.health.uncorrectable_remaps = 1;
  sample.details = {1980, 3201, 7, 8, 55, 1000, 2000, 4, 5, 6, 2};
  return sample;
}

Snapshot FullSnapshot(const gpu::GpuSample& sample) {
  Snapshot snapshot;
  snapshot.host = "node\"1";
  snapshot.version = "1.2";
  snapshot.driver_version = "580.159.04";
  Device device;
  device.gpu = {0, kUuid, "NVIDIA H200", "00000000:00:06.0", base::GiB(8)};
  device.sample = &sample;
  device.health = "degraded";
  device.faults = {"pcie_replays"};
  device.reserve = base::MiB(256);
  device.unmanaged["eve"] = {base::GiB(1), base::MiB(512)};
  device.energy_parts = {{"jobs", 1.5}, {"idle", 0.5}, {"others", 0.25}};
  snapshot.devices.push_back(device);
  snapshot.kwh_price = 0.25;
  snapshot.gpu_hour_price = 2;
  snapshot.currency = "EUR";
  Job job{7,
          "tr\nain",
          "ann",
          "vision",
          "running",
          {},
          {},
          {},
          base::GiB(2),
          base::GiB(1),
          2,
          3.5,
          {{"0", kUuid, base::GiB(1), base::GiB(4), base::GiB(3)}}};
  snapshot.jobs.push_back(job);
  job.id = 8;
  job.peak.reset();
  job.parts = {{"0", kUuid, base::GiB(1), {}, {}, 3}};
  job.name_space = "team";
  job.pod = "train-0";
  job.container = "main";
  snapshot.jobs.push_back(job);
  SharedGpu shared;
  shared.uuid = kUuid;
  shared.in_run_set = 1;
  shared.moved_out = base::GiB(2);
  shared.copied_out = base::GiB(1);
  shared.hand_overs = base::Histogram({1});
  shared.times = {{7, "train", "ann", 0.6, 0.3, 0.25, {}, 0.05}, {8, "new", "bob", {}, 0.7, {}, 1.5, {}}};
  snapshot.shared.push_back(shared);
  JobRestStats rest{"several", base::Histogram({0.1, 1}), {{"rested", 1}, {"late", 2}}, 40};
  rest.seconds.Observe(0.05);
  snapshot.rests = {{"one", base::Histogram({0.1, 1}), {{"rested", 3}}, 2}, rest};
  snapshot.left = {{"0", kUuid, base::MiB(524)}};
  snapshot.kept = base::MiB(256);
  snapshot.idle_on_gpu = 2;
  snapshot.idle_away = 1;
  snapshot.queue.waiting = {{"resources", 4}, {"held_by_user", 2}};
  snapshot.queue.oldest_seconds = 60;
  snapshot.counters.OnXid(kUuid, 74);
  snapshot.counters.On({"soft_limit", CountedOwner{"ann", "vision"}});
  snapshot.counters.On({"job_started", CountedOwner{"ann", "vision"}});
  snapshot.counters.On({"job_finished", CountedOwner{"ann", "vision"}});
  snapshot.counters.On({"job_suspended", CountedOwner{"ann", "vision"}});
  snapshot.self = ReadSelfCost();
  snapshot.scrapes = 3;
  return snapshot;
}

std::set<std::string> NamesIn(const std::string& text) {
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("# TYPE ")) names.insert(line.substr(7, line.find(' ', 7) - 7));
  return names;
}

TEST(Metrics, EveryFamilyOfTheTableComesFromSomewhere) {
  const auto sample = FullSample();
  const auto names = NamesIn(Render(FullSnapshot(sample), true));
  for (const auto& family : kFamilies) EXPECT_TRUE(names.contains(std::string(family.name))) << family.name;
}

TEST(Metrics, EveryLineIsASampleOfTheFormatAndNoneComesTwice) {
  const auto sample = FullSample();
  std::istringstream lines(Render(FullSnapshot(sample), true));
  const std::regex form(
      R"(([a-zA-Z_][a-zA-Z0-9_]*)(\{([a-zA-Z_]+="([^"\\]|\\["\\n])*")(,[a-zA-Z_]+="([^"\\]|\\["\\n])*")*\})? -?[0-9.e+-]+)");
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) continue;
    EXPECT_TRUE(std::regex_match(line, form)) << line;
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_GT(seen.size(), kFamilyCount);
}

TEST(Metrics, HaveTheNamesLabelsAndUnitsOfDcgmExporter) {
  const auto sample = FullSample();
  const auto text = Render(FullSnapshot(sample), true);
  const std::string labels =
      R"({gpu="0",UUID="GPU-0",pci_bus_id="00000000:00:06.0",device="nvidia0",modelName="NVIDIA H200",)"
      R"(Hostname="node\"1",DCGM_FI_DRIVER_VERSION="580.159.04"})";
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_FB_USED" + labels + " 3072\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_FB_RESERVED" + labels + " 1024\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_GPU_UTIL" + labels + " 50\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_POWER_USAGE" + labels + " 123.5\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" + labels + " 2500\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_XID_ERRORS" + labels + " 74\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_ECC_SBE_VOL_TOTAL" + labels + " 4\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_ECC_DBE_AGG_TOTAL" + labels + " 6\n"));
}

TEST(Metrics, WithoutThemHaveNoNameOfDcgmExporter) {
  const auto sample = FullSample();
  const auto text = Render(FullSnapshot(sample), false);
  EXPECT_THAT(text, Not(HasSubstr("DCGM")));
  EXPECT_THAT(text, HasSubstr("gpuman_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-0\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_gpu_sm_clock_hertz{gpu=\"0\",uuid=\"GPU-0\"} 1980000000\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_gpu_energy_joules_total{gpu=\"0\",uuid=\"GPU-0\"} 2.5\n"));
  EXPECT_THAT(text,
              HasSubstr("gpuman_gpu_energy_part_joules_total{gpu=\"0\",uuid=\"GPU-0\",part=\"jobs\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_cost_kwh{currency=\"EUR\"} 0.25\n"));
}

TEST(Metrics, SayNothingOfWhatTheDeviceDoesNotHave) {
  gpu::GpuSample bare;
  bare.uuid = kUuid;
  bare.taken_at = base::MonoTime(std::chrono::seconds(5));
  const auto names = NamesIn(Render(FullSnapshot(bare), true));
  for (const char* absent :
       {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_SM_CLOCK",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "gpuman_gpu_power_watts",
        "gpuman_gpu_memory_used_bytes", "gpuman_gpu_hardware_slowdown"})
    EXPECT_FALSE(names.contains(absent)) << absent;
  EXPECT_TRUE(names.contains("gpuman_gpu_up"));
}

TEST(Metrics, OfALostGpuAreItsNameAndThatItIsLost) {
  auto sample = FullSample();
  sample.state = gpu::GpuReachability::kLost;
  const auto text = Render(FullSnapshot(sample), true);
  EXPECT_THAT(text, HasSubstr("gpuman_gpu_up{gpu=\"0\",uuid=\"GPU-0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_gpu_info{"));
  EXPECT_THAT(text, Not(HasSubstr("DCGM_FI_DEV_GPU_TEMP")));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_gpu_temperature_celsius")));
}

TEST(Metrics, OfAGpuThatWasNotLookedAtSayNotThatItIsLost) {
  const gpu::GpuSample none;
  EXPECT_THAT(Render(FullSnapshot(none), true), Not(HasSubstr("gpuman_gpu_up")));
}

// GPU 0 is split into a GPU instance with one compute instance, and one with two.
TEST(Metrics, OfASplitGpuTellMemoryAndProcessesOfItsInstances) {
  auto sample = FullSample();
  gpu::GpuSample part;
  part.taken_at = sample.taken_at;
  part.memory = gpu::GpuMemoryInfo{base::GiB(2), base::GiB(1), base::GiB(1), {}};
  part.processes.emplace();
  Snapshot snapshot = FullSnapshot(sample);
  snapshot.devices[0].gpu.split = true;
  const struct {
    unsigned gpu_instance, compute_instance;
    const char* profile;
  } parts[] = {{1, 0, "1g.18gb"}, {2, 0, "1c.3g.71gb"}, {2, 1, "2c.3g.71gb"}};
  for (const auto& [gi, ci, profile] : parts) {
    Device device;
    const auto number = static_cast<unsigned>(snapshot.devices.size()) - 1;
    device.gpu = {0, "MIG-" + std::to_string(number), "NVIDIA H200 MIG", "00000000:00:06.0", base::GiB(2)};
    device.gpu.mig = gpu::Instance{kUuid, number, gi, ci, profile};
    device.sample = &part;
    snapshot.devices.push_back(device);
  }
  const auto text = Render(snapshot, true);
  EXPECT_THAT(text, HasSubstr(R"(gpuman_gpu_memory_used_bytes{gpu="0:1",uuid="MIG-1"} 1073741824)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(gpuman_gpu_memory_used_bytes{gpu="0",)")));
  EXPECT_THAT(text, Not(HasSubstr(R"(gpuman_gpu_memory_total_bytes{gpu="0",)")));
  EXPECT_THAT(text, HasSubstr(R"(gpuman_gpu_temperature_celsius{gpu="0",)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(gpuman_gpu_health_state{gpu="0:0",)")));
  EXPECT_THAT(text, HasSubstr(R"(profile="1g.18gb",parent="GPU-0"})"));
  const std::regex framebuffer(
      R"x(DCGM_FI_DEV_FB_USED\{gpu="0",UUID="GPU-0",[^}]*modelName="NVIDIA H200",[^}]*GPU_I_PROFILE="([^"]*)",GPU_I_ID="([^"]*)"\} 1024)x");
  std::set<std::string> told;
  for (std::sregex_iterator it(text.begin(), text.end(), framebuffer), end; it != end; ++it)
    told.insert((*it)[1].str() + "/" + (*it)[2].str());
  EXPECT_EQ(told, (std::set<std::string>{"1g.18gb/1", "3g.71gb/2"}));
  std::istringstream lines(text);
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.starts_with("# ") || seen.insert(line.substr(0, line.rfind(' '))).second) << line;
}

TEST(Metrics, OfJobsAreLabelledAndAddedUpByUserAndProject) {
  const auto sample = FullSample();
  const auto text = Render(FullSnapshot(sample), false);
  EXPECT_THAT(text, HasSubstr("gpuman_job_memory_used_bytes{job_id=\"7\",tag=\"tr\\nain\",user=\"ann\","
                              "project=\"vision\",gpu=\"0\",uuid=\"GPU-0\"} 1073741824\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_job_memory_limit_bytes{job_id=\"7\""));
  EXPECT_THAT(text, HasSubstr("container=\"main\",gpu=\"0\",uuid=\"GPU-0\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_job_refused_allocations_total{job_id=\"7\""))) << "not known";
  EXPECT_THAT(text, HasSubstr("gpuman_job_restarts_total{job_id=\"8\",tag=\"tr\\nain\",user=\"ann\",project="
                              "\"vision\",namespace=\"team\",pod=\"train-0\",container=\"main\"} 2"));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_job_memory_limit_bytes{job_id=\"8\"")));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_job_memory_peak_bytes{job_id=\"8\"")));
  EXPECT_THAT(text, HasSubstr("gpuman_user_jobs{user=\"ann\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_user_memory_used_bytes{user=\"ann\"} 2147483648\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_project_memory_limit_bytes{project=\"vision\"} 4294967296\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_jobs{state=\"running\"} 2\n"));
}

TEST(Metrics, OfComingToRestAreToldByTheNumberOfProcessesAndTheResult) {
  const auto sample = FullSample();
  const auto text = Render(FullSnapshot(sample), false);
  EXPECT_THAT(text, HasSubstr("gpuman_rest_seconds_bucket{processes=\"several\",le=\"0.1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_rest_seconds_count{processes=\"one\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_rest_attempts_total{processes=\"several\",result=\"late\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_rest_steps_total 42\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_left_bytes{gpu=\"0\",uuid=\"GPU-0\"} 549453824\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_kept_host_memory_bytes 268435456\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_idle_jobs{state=\"on_gpu\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_idle_jobs{state=\"away\"} 1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("gpuman_share_moved_bytes_total{gpu=\"0\",uuid=\"GPU-0\",direction=\"out\"} 2147483648\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_share_compute_part_ratio{gpu=\"0\",uuid=\"GPU-0\",job_id=\"7\","
                              "tag=\"train\",user=\"ann\"} 0.3\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_share_compute_had_ratio{gpu=\"0\",uuid=\"GPU-0\",job_id=\"7\","
                              "tag=\"train\",user=\"ann\"} 0.25\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_share_compute_had_ratio{gpu=\"0\",uuid=\"GPU-0\",job_id=\"8\"")));
  EXPECT_THAT(text, HasSubstr("gpuman_share_compute_asked_ratio{gpu=\"0\",uuid=\"GPU-0\",job_id=\"7\","
                              "tag=\"train\",user=\"ann\"} 0.6\n"));
  EXPECT_THAT(text, Not(HasSubstr("asked_ratio{gpu=\"0\",uuid=\"GPU-0\",job_id=\"8\"")));
  const std::string first = "{gpu=\"0\",uuid=\"GPU-0\",job_id=\"8\",tag=\"new\",user=\"bob\"}";
  EXPECT_THAT(text, HasSubstr("gpuman_share_latency" + first + " 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_share_latency{gpu=\"0\",uuid=\"GPU-0\",job_id=\"7\"")));
  EXPECT_THAT(text, HasSubstr("gpuman_share_held_others_seconds_total" + first + " 1.5\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_share_longest_unit_seconds{gpu=\"0\",uuid=\"GPU-0\",job_id=\"7\","
                              "tag=\"train\",user=\"ann\"} 0.05\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpuman_share_longest_unit_seconds" + first)));
  EXPECT_THAT(
      text,
      HasSubstr("gpuman_share_copied_bytes_total{gpu=\"0\",uuid=\"GPU-0\",direction=\"out\"} 1073741824\n"));
}

TEST(Metrics, OfTheQueueTellHeldFromQueued) {
  const auto sample = FullSample();
  const auto text = Render(FullSnapshot(sample), false);
  EXPECT_THAT(text, HasSubstr("gpuman_jobs{state=\"queued\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_jobs{state=\"held\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("gpuman_queue_jobs{reason=\"resources\"} 4\n"));
}

TEST(SelfCost, IsThatOfThisProcess) {
  const auto cost = ReadSelfCost();
  EXPECT_GT(cost.cpu_seconds, 0);
  ASSERT_TRUE(cost.resident && cost.virtual_size && cost.open_files && cost.started_seconds);
  EXPECT_GT(cost.resident->count, base::MiB(1).count);
  EXPECT_GT(*cost.virtual_size, *cost.resident);
  EXPECT_GE(*cost.open_files, 3u);
  EXPECT_GT(*cost.started_seconds, 1.5e9);
  EXPECT_LE(*cost.started_seconds, static_cast<double>(std::time(nullptr)) + 2);
}

}  // namespace
}  // namespace gpuman::metrics
