#include "sim/profiles/profiles.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "sim/profiles/mig_tables.h"

namespace gpuman::sim {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint32_t kBrandGeForce = 5, kBrandNvidia = 14;
constexpr std::uint32_t kAmpere = 7, kAda = 8, kHopper = 9;

template <std::size_t N>
void Copy(char (&to)[N], const char* from) {
  std::snprintf(to, N, "%s", from);
}

// The first GPU has the UUID `first`; the others' differ in their last two digits.
void SetIdentity(GpuStatic& gpu, const char* first, unsigned index, std::uint32_t pci_first) {
  const unsigned last = static_cast<unsigned>(std::strtoul(first + std::strlen(first) - 2, nullptr, 16));
  const auto length = static_cast<int>(std::strlen(first) - 2);
  std::snprintf(gpu.uuid, sizeof gpu.uuid, "%.*s%02x", length, first, (last + index) & 0xff);
  gpu.pci_domain = 0;
  gpu.minor_number = index;
  gpu.module_id = index + 1;
  gpu.pci_device = pci_first + index;
  gpu.board_id = gpu.pci_bus << 8 | gpu.pci_device;
}

// The topology of a server with eight GPUs: NVLink joins all, a PCIe switch has two, a socket four.
void SetServerTopology(GpuStatic& gpu, unsigned index) {
  gpu.nvlink_peers = ~(1u << index);
  gpu.pcie_switch = index / 2;
  gpu.numa_node = index / 4;
}

void NoThresholds(GpuStatic& gpu) { gpu.thresholds_c.fill(kNoThreshold); }

constexpr std::uint64_t kDataCentre =
    kFeatureEcc | kFeatureMig | kFeaturePowerLimit | kFeaturePowerReading | kFeaturePowerConstraints |
    kFeatureRemappedRows | kFeatureApplicationClocks | kFeatureLockedGpuClocks | kFeatureEnergy |
    kFeatureMemoryTemperature | kFeatureViolations | kFeatureSerial | kFeatureVmm | kFeatureManagedFaults |
    kFeatureAccounting | kFeaturePeerAccess;

// An H200 in a virtual machine, by the output of nvidia-smi -q of driver 580.159.04.
void FillH200(GpuStatic& gpu, unsigned index) {
  Copy(gpu.name, "NVIDIA H200");
  Copy(gpu.serial, "0");
  Copy(gpu.vbios, "96.00.A5.00.1A");
  Copy(gpu.board_part_number, "692-2G520-0282-001");
  Copy(gpu.inforom_image, "G520.0282.02.02");
  Copy(gpu.inforom_ecc, "7.16");
  gpu.pci_bus = 0;
  SetIdentity(gpu, "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", index, 6);
  gpu.module_id = 4 + index;
  SetServerTopology(gpu, index);
  gpu.features = kDataCentre | kFeatureLockedMemoryClocks | kFeatureTemperatureLimit;
  gpu.memory_total = 143771 * kMiB;
  gpu.memory_reserved = 9841 * 64 * 1024;  // shown rounded up: 616 MiB, and 143156 MiB free
  gpu.context_overhead = 518 * kMiB;
  gpu.bar1_total = 262144 * kMiB;
  gpu.pci_device_id = 0x233510DE;
  gpu.pci_subsystem_id = 0x18BF10DE;
  gpu.architecture = kHopper;
  gpu.brand = kBrandNvidia;
  gpu.compute_major = 9;
  gpu.compute_minor = 0;
  gpu.cores = 16896;
  gpu.multiprocessors = 132;
  gpu.memory_bus_width = 6144;
  gpu.l2_cache_bytes = 60 * kMiB;
  gpu.shared_memory_per_multiprocessor = 233472;
  gpu.max_threads_per_multiprocessor = 2048;
  gpu.pcie_max_gen = 5;
  gpu.pcie_max_width = 16;
  gpu.pcie_max_speed_mbps = 32000;
  gpu.mig_slices = 7;
  gpu.mig_kind = static_cast<std::uint32_t>(MigKind::kH200);
  gpu.clock_max_mhz = {1980, 1980, 3201, 1545};
  gpu.clock_idle_mhz = {345, 345, 3201, 765};
  gpu.memory_clocks_mhz = {3201, 2201};
  gpu.graphics_clock_min_mhz = 345;
  gpu.graphics_clock_step_mhz = 15;
  gpu.power_min_mw = 200'000;
  gpu.power_max_mw = 700'000;
  gpu.power_default_mw = 700'000;
  gpu.power_idle_mw = 78'290;
  gpu.power_context_mw = 126'500;
  gpu.power_idle_average_mw = 98'890;
  gpu.memory_power_idle_mw = 47'170;
  gpu.temperature_idle_c = 33;
  gpu.memory_temperature_idle_c = 35;
  NoThresholds(gpu);
  gpu.thresholds_c[0] = 95;  // shutdown; the margins below are those of driver 580
  gpu.thresholds_c[1] = 89;
  gpu.thresholds_c[2] = 95;
  gpu.thresholds_c[3] = 87;
  gpu.tlimit_idle_margin_c = 54;
  gpu.tlimit_shutdown_c = -8;
  gpu.tlimit_slowdown_c = -2;
  gpu.tlimit_max_operating_c = 0;
  gpu.tlimit_memory_max_c = 0;
  gpu.remap_banks = 3072;
  gpu.persistence_at_boot = 1;
}

// An A100-SXM4-80GB.
void FillA100(GpuStatic& gpu, unsigned index) {
  Copy(gpu.name, "NVIDIA A100-SXM4-80GB");
  std::snprintf(gpu.serial, sizeof gpu.serial, "%u", 1564720000u + index);
  Copy(gpu.vbios, "92.00.45.00.03");
  Copy(gpu.board_part_number, "692-2G506-0212-002");
  Copy(gpu.inforom_image, "G506.0212.00.02");
  Copy(gpu.inforom_ecc, "6.16");
  gpu.pci_bus = 7;
  SetIdentity(gpu, "GPU-5d0a1b7c-93e4-4d2f-8b61-c07e2f9a4410", index, 0);
  SetServerTopology(gpu, index);
  gpu.features = kDataCentre;
  gpu.memory_total = 81920 * kMiB;
  gpu.memory_reserved = 614 * kMiB;
  gpu.context_overhead = 418 * kMiB;
  gpu.bar1_total = 131072 * kMiB;
  gpu.pci_device_id = 0x20B210DE;
  gpu.pci_subsystem_id = 0x147F10DE;
  gpu.architecture = kAmpere;
  gpu.brand = kBrandNvidia;
  gpu.compute_major = 8;
  gpu.compute_minor = 0;
  gpu.cores = 6912;
  gpu.multiprocessors = 108;
  gpu.memory_bus_width = 5120;
  gpu.l2_cache_bytes = 40 * kMiB;
  gpu.shared_memory_per_multiprocessor = 167936;
  gpu.max_threads_per_multiprocessor = 2048;
  gpu.pcie_max_gen = 4;
  gpu.pcie_max_width = 16;
  gpu.pcie_max_speed_mbps = 16000;
  gpu.mig_slices = 7;
  gpu.mig_kind = static_cast<std::uint32_t>(MigKind::kA100With80);
  gpu.clock_max_mhz = {1410, 1410, 1593, 1290};
  gpu.clock_idle_mhz = {210, 210, 1593, 585};
  gpu.memory_clocks_mhz = {1593};
  gpu.graphics_clock_min_mhz = 210;
  gpu.graphics_clock_step_mhz = 15;
  gpu.power_min_mw = 100'000;
  gpu.power_max_mw = 400'000;
  gpu.power_default_mw = 400'000;
  gpu.power_idle_mw = 62'000;
  gpu.power_idle_average_mw = 62'500;
  gpu.memory_power_idle_mw = 0;
  gpu.temperature_idle_c = 31;
  gpu.memory_temperature_idle_c = 34;
  NoThresholds(gpu);
  gpu.thresholds_c[0] = 92;
  gpu.thresholds_c[1] = 89;
  gpu.thresholds_c[2] = 95;
  gpu.thresholds_c[3] = 85;
  gpu.remap_banks = 640;
}

// A GeForce in a laptop: it does not support many features.
void FillRtx4050(GpuStatic& gpu, unsigned index) {
  Copy(gpu.name, "NVIDIA GeForce RTX 4050 Laptop GPU");
  Copy(gpu.vbios, "95.07.1B.00.52");
  Copy(gpu.inforom_image, "G001.0000.94.01");
  gpu.pci_bus = 1;
  SetIdentity(gpu, "GPU-2f6d8e10-7b94-5c3a-9e02-6a41d85f3c70", index, 0);
  gpu.pcie_switch = index;
  gpu.features = kFeaturePowerReading | kFeatureLockedGpuClocks | kFeatureLockedMemoryClocks | kFeatureVmm |
                 kFeatureManagedFaults | kFeatureAccounting;
  gpu.memory_total = 6141 * kMiB;
  gpu.memory_reserved = 225 * kMiB;
  gpu.context_overhead = 104 * kMiB;
  gpu.bar1_total = 8192 * kMiB;
  gpu.pci_device_id = 0x28A110DE;
  gpu.pci_subsystem_id = 0x13881043;
  gpu.architecture = kAda;
  gpu.brand = kBrandGeForce;
  gpu.compute_major = 8;
  gpu.compute_minor = 9;
  gpu.cores = 2560;
  gpu.multiprocessors = 20;
  gpu.memory_bus_width = 96;
  gpu.l2_cache_bytes = 12 * kMiB;
  gpu.shared_memory_per_multiprocessor = 102400;
  gpu.max_threads_per_multiprocessor = 1536;
  gpu.pcie_max_gen = 4;
  gpu.pcie_max_width = 8;
  gpu.pcie_max_speed_mbps = 16000;
  gpu.clock_max_mhz = {3105, 3105, 8001, 2415};
  gpu.clock_idle_mhz = {210, 210, 405, 765};
  gpu.memory_clocks_mhz = {8001, 7001, 5001, 810, 405};
  gpu.graphics_clock_min_mhz = 210;
  gpu.graphics_clock_step_mhz = 15;
  gpu.power_min_mw = 5'000;
  gpu.power_max_mw = 65'000;
  gpu.power_default_mw = 55'000;
  gpu.power_idle_mw = 1'900;
  gpu.power_idle_average_mw = 1'900;
  gpu.temperature_idle_c = 42;
  NoThresholds(gpu);
  gpu.thresholds_c[0] = 105;
  gpu.thresholds_c[1] = 102;
  gpu.thresholds_c[3] = 87;
}

struct Profile {
  std::string_view name;
  void (*fill)(GpuStatic&, unsigned);
};
constexpr std::array<Profile, 3> kProfiles = {
    {{"rtx4050", FillRtx4050}, {"a100", FillA100}, {"h200", FillH200}}};

}  // namespace

bool FillProfile(std::string_view profile, unsigned index, GpuStatic& gpu) {
  for (const Profile& candidate : kProfiles) {
    if (candidate.name != profile) continue;
    candidate.fill(gpu, index);
    return true;
  }
  return false;
}

std::string ProfileNames() {
  std::string names;
  for (const Profile& profile : kProfiles) names.append(names.empty() ? "" : ", ").append(profile.name);
  return names;
}

std::optional<DriverVersion> ParseDriverVersion(std::string_view text) {
  if (text.size() >= 32) return std::nullopt;
  std::array<std::uint32_t, 3> parts{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [stopped, error] = std::from_chars(at, end, parts[i]);
    if (error != std::errc{} || parts[i] > 9999) return std::nullopt;
    at = stopped;
    if (at == end) return i >= 1 ? std::optional(DriverVersion{parts[0], parts[1], parts[2]}) : std::nullopt;
    if (*at++ != '.') return std::nullopt;
  }
  return std::nullopt;
}

std::uint32_t CudaVersionOf(const DriverVersion& version) {
  struct Row {
    std::uint32_t driver, cuda;
  };
  // From the CUDA toolkit release notes, first driver branch of each version.
  constexpr std::array<Row, 16> kRows = {{{615, 13050},
                                          {590, 13010},
                                          {580, 13000},
                                          {575, 12090},
                                          {570, 12080},
                                          {565, 12070},
                                          {560, 12060},
                                          {555, 12050},
                                          {550, 12040},
                                          {545, 12030},
                                          {535, 12020},
                                          {530, 12010},
                                          {525, 12000},
                                          {520, 11080},
                                          {515, 11070},
                                          {510, 11060}}};
  for (const Row& row : kRows) {
    if (version.major >= row.driver) return row.cuda;
  }
  return 11040;
}

}  // namespace gpuman::sim
