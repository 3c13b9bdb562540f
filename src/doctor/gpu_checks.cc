#include "doctor/gpu_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "driver/abi/nvml.h"

namespace gpuman::doctor {
namespace {

using enum Severity;
namespace abi = driver::abi;

// The findings of `look` for each GPU that answers; "n/a" if `look` has no finding for any GPU.
template <typename Function>
Findings OfEach(const Facts& facts, std::string_view fine, Function look) {
  Findings findings;
  std::size_t told = 0;
  for (const auto& gpu : facts.gpus) {
    if (!gpu.problem.empty()) continue;
    auto finding = look(gpu);
    if (!finding) continue;
    ++told;
    if (finding->severity == kFine) continue;
    finding->subject = fmt::format("GPU {}", gpu.index);
    findings.push_back(std::move(*finding));
  }
  if (told == 0) return OneFinding(kUnknown, "n/a: no GPU here reports it");
  if (findings.empty()) return OneFinding(kFine, std::string(fine));
  return findings;
}
using Said = std::optional<Finding>;

Finding Say(Severity severity, std::string text, std::string remedy = {}) {
  return {"", severity, "", std::move(text), std::move(remedy)};
}

std::string Seconds(std::uint64_t nanoseconds) {
  return base::FormatDuration(base::Millis(static_cast<std::int64_t>(nanoseconds / 1'000'000)));
}

// Turns 13000 into "CUDA 13.0".
std::string CudaName(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

std::string SavingOf(const Facts& facts, const GpuFacts& gpu) {
  const auto& measured = facts.cold_start;
  if (!measured || !measured->problem.empty() || measured->gpu != gpu.index) return "";
  return fmt::format("; measured: {} on its own, {} beside another, so it would save {} each time",
                     base::FormatDuration(measured->cold), base::FormatDuration(measured->warm),
                     base::FormatDuration(std::max(measured->cold - measured->warm, base::Millis(0))));
}

}  // namespace

Findings CheckDriver(const Facts& facts) {
  if (!facts.driver.problem.empty())
    return OneFinding(
        kError, "the driver cannot be used: " + facts.driver.problem,
        "install the driver, or load it: modprobe nvidia; dmesg | grep -i nvidia says why it does not load");
  return OneFinding(kFine, "the driver answers: version " + facts.driver.nvml.value_or("n/a"));
}

Findings CheckVersions(const Facts& facts) {
  const auto& driver = facts.driver;
  constexpr const char* kRemedy =
      "an upgrade is not complete: reboot, or stop all GPU programs and load the module again";
  if (driver.nvml && driver.kernel && *driver.nvml != *driver.kernel)
    return OneFinding(
        kError, fmt::format("the kernel module is {}, the libraries are {}", *driver.kernel, *driver.nvml),
        kRemedy);
  if (!driver.problem.empty() && driver.kernel)
    return OneFinding(
        kError,
        fmt::format("the kernel module {} is loaded and the libraries do not go with it", *driver.kernel),
        kRemedy);
  if (driver.nvml_cuda && driver.libcuda && *driver.nvml_cuda != *driver.libcuda)
    return OneFinding(
        kError,
        fmt::format("libcuda is from a driver with {}, NVML from one with {}", CudaName(*driver.libcuda),
                    CudaName(*driver.nvml_cuda)),
        "another libcuda.so.1 comes first: ldconfig -p | grep libcuda, and look at LD_LIBRARY_PATH");
  if (!driver.libcuda)
    return OneFinding(
        driver.problem.empty() ? kError : kUnknown,
        "libcuda cannot be used: " + (driver.libcuda_problem.empty() ? "n/a" : driver.libcuda_problem),
        "install the driver's compute libraries (Debian: libcuda1, Ubuntu: libnvidia-compute)");
  return OneFinding(kFine, fmt::format("{} agree, up to {}",
                                       driver.kernel ? "kernel module, NVML and libcuda" : "NVML and libcuda",
                                       CudaName(*driver.libcuda)));
}

Findings CheckGpus(const Facts& facts) {
  Findings findings;
  for (const auto& gpu : facts.gpus)
    if (!gpu.problem.empty())
      findings.push_back({"", kError, fmt::format("GPU {}", gpu.index),
                          "it cannot be talked to: " + gpu.problem, "gpuman health says what to do"});
  if (!findings.empty()) return findings;
  if (facts.gpus.empty())
    return OneFinding(
        facts.driver.problem.empty() ? kError : kUnknown, "there is no GPU",
        "lspci -d 10de: shows whether the machine sees one; dmesg | grep -i nvidia says why it is not used");
  return OneFinding(kFine, fmt::format("{} GPU{} answer{}", facts.gpus.size(),
                                       facts.gpus.size() == 1 ? "" : "s", facts.gpus.size() == 1 ? "s" : ""));
}

Findings CheckHealth(const Facts& facts) {
  if (!facts.daemon.faults) return OneFinding(kUnknown, "n/a without the daemon, which watches for faults");
  Findings findings;
  for (const auto& fault : *facts.daemon.faults)
    findings.push_back({"", fault.unhealthy ? kError : kWarning, fault.gpu,
                        fmt::format("{}: {}", fault.code, fault.text), "gpuman health"});
  return findings.empty() ? OneFinding(kFine, "no GPU has a known fault") : findings;
}

Findings CheckPersistence(const Facts& facts) {
  return OfEach(facts, "persistence is on", [&](const GpuFacts& gpu) -> Said {
    if (!gpu.persistence) return std::nullopt;
    if (*gpu.persistence) return Say(kFine, "");
    return Say(
        kWarning,
        "persistence is off: the first CUDA call of a program waits while the driver initialises the GPU" +
            SavingOf(facts, gpu),
        fmt::format("gpuman device persistence on --gpu {}", gpu.index));
  });
}

Findings CheckEcc(const Facts& facts) {
  return OfEach(facts, "ECC is on", [](const GpuFacts& gpu) -> Said {
    if (!gpu.ecc) return std::nullopt;
    if (gpu.ecc_pending && *gpu.ecc_pending != *gpu.ecc)
      return Say(kWarning,
                 fmt::format("ECC is {} and turns {} with the next reset", *gpu.ecc ? "on" : "off",
                             *gpu.ecc_pending ? "on" : "off"),
                 fmt::format("nvidia-smi --gpu-reset -i {} while nobody uses it, or reboot", gpu.index));
    if (!*gpu.ecc)
      return Say(kWarning, "ECC is off: errors of the memory go unnoticed",
                 fmt::format("gpuman device ecc on --gpu {}", gpu.index));
    return Say(kFine, "");
  });
}

Findings CheckThrottling(const Facts& facts) {
  struct Reason {
    std::uint64_t bit;
    const char* text;
  };
  constexpr std::array<Reason, 4> kReasons{
      {{abi::nvmlClocksThrottleReasonHwThermalSlowdown, "heat (hardware)"},
       {abi::nvmlClocksEventReasonSwThermalSlowdown, "heat"},
       {abi::nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "the power supply's brake"},
       {abi::nvmlClocksThrottleReasonHwSlowdown, "the hardware's slowdown"}}};
  return OfEach(facts, "no GPU is throttled", [&](const GpuFacts& gpu) -> Said {
    if (!gpu.clock_reasons) return std::nullopt;
    std::vector<const char*> why;
    for (const auto& reason : kReasons)
      if ((*gpu.clock_reasons & reason.bit) != 0) why.push_back(reason.text);
    if (!why.empty())
      return Say(kError, fmt::format("its clocks are throttled at this moment by {}", fmt::join(why, ", ")),
                 "look at fans, air flow and power supply; gpuman health has it over time");
    if ((*gpu.clock_reasons & abi::nvmlClocksEventReasonSwPowerCap) != 0)
      return Say(kNote, "it works at its power limit, which is usual under load");
    return Say(kFine, "");
  });
}

Findings CheckThrottledBefore(const Facts& facts) {
  constexpr std::uint64_t kMuch = 1'000'000'000;  // each change of load adds less than this
  return OfEach(
      facts, "no GPU was throttled by heat since the driver was loaded", [](const GpuFacts& gpu) -> Said {
        if (!gpu.thermal_ns) return std::nullopt;
        if (*gpu.thermal_ns < kMuch) return Say(kFine, "");
        return Say(
            kWarning,
            fmt::format("heat throttled it for {} since the driver was loaded", Seconds(*gpu.thermal_ns)),
            "look at fans and air flow, or lower its power: gpuman device power set");
      });
}

Findings CheckClocks(const Facts& facts) {
  return OfEach(facts, "no clocks are set except those that gpuman set", [](const GpuFacts& gpu) -> Said {
    if (!gpu.clock_reasons && !gpu.app_clock) return std::nullopt;
    const std::string remedy = fmt::format("gpuman device clocks reset --gpu {}", gpu.index);
    if (gpu.app_clock && gpu.default_app_clock && *gpu.app_clock != *gpu.default_app_clock)
      return Say(kWarning,
                 fmt::format("its application clock is {} MHz, by default it is {} MHz", *gpu.app_clock,
                             *gpu.default_app_clock),
                 remedy);
    if (gpu.clock_reasons && (*gpu.clock_reasons & abi::nvmlClocksEventReasonApplicationsClocksSetting) != 0)
      return Say(kWarning, "somebody has set its clocks, and that holds it back at this moment", remedy);
    return Say(kFine, "");
  });
}

Findings CheckPower(const Facts& facts) {
  return OfEach(facts, "power limits are as by default", [](const GpuFacts& gpu) -> Said {
    if (!gpu.power_limit || !gpu.default_power_limit) return std::nullopt;
    if (*gpu.power_limit >= *gpu.default_power_limit) return Say(kFine, "");
    return Say(kNote,
               fmt::format("its power is limited to {} W, by default it is {} W", *gpu.power_limit / 1000,
                           *gpu.default_power_limit / 1000),
               fmt::format("gpuman device power reset --gpu {}", gpu.index));
  });
}

// An idle GPU lowers the generation of its link, but not the width.
Findings CheckLink(const Facts& facts) {
  constexpr unsigned kBusy = 50;  // percent
  return OfEach(facts, "PCIe links are as wide as they can be", [](const GpuFacts& gpu) -> Said {
    if (!gpu.link_width || !gpu.most_link_width) return std::nullopt;
    constexpr const char* kRemedy =
        "switch off, seat the card or its riser anew, and look at the slot in the board's manual";
    if (*gpu.link_width < *gpu.most_link_width)
      return Say(kWarning,
                 fmt::format("its PCIe link has {} of {} lanes, so copies to and from the GPU are slower",
                             *gpu.link_width, *gpu.most_link_width),
                 kRemedy);
    if (gpu.link_gen && gpu.most_link_gen && *gpu.link_gen < *gpu.most_link_gen &&
        gpu.utilization.value_or(0) >= kBusy)
      return Say(kWarning,
                 fmt::format("its PCIe link is of generation {} while it works, and could be of {}",
                             *gpu.link_gen, *gpu.most_link_gen),
                 kRemedy);
    return Say(kFine, "");
  });
}

Findings CheckPeerAccess(const Facts& facts) {
  constexpr std::size_t kNamed = 4;
  if (!facts.apart) return OneFinding(kUnknown, "n/a: the driver does not say which GPUs reach each other");
  if (facts.apart->empty())
    return OneFinding(kFine, facts.gpus.size() < 2 ? "there is no other GPU to reach"
                                                   : "all GPUs reach each other's memory");
  std::vector<std::string> pairs;
  for (const auto& pair : *facts.apart) {
    if (pairs.size() == kNamed) break;
    pairs.push_back(fmt::format("{} and {}", pair.gpu, pair.other));
  }
  const auto more = facts.apart->size() - pairs.size();
  return OneFinding(
      kNote,
      fmt::format("GPUs that do not reach each other's memory (peer access): {}{}; the memory of a process "
                  "that sees two such GPUs stays there while its job waits for its turn, and only the "
                  "driver's checkpoint can suspend the job",
                  fmt::join(pairs, ", "), more == 0 ? "" : fmt::format(", and {} more pairs", more)),
      "let each process of a job of --share see only its own GPU (CUDA_VISIBLE_DEVICES); docs/sharing.md");
}

namespace {

// Adds a finding about one GPU.
auto AdderFor(Findings& findings, unsigned gpu) {
  return [&findings, gpu](Severity severity, std::string text, std::string remedy) {
    findings.push_back({"", severity, fmt::format("GPU {}", gpu), std::move(text), std::move(remedy)});
  };
}

// The command that sets the desired setting again. If a profile wants the setting, the remedy leaves it to
// the profile: a setting by hand would override the profile.
std::string RemedyOfDrift(const KeptSetting& kept) {
  constexpr std::string_view kElse =
      "gpuman device show says more; device.mend_drift = true sets such settings back";
  if (kept.because != "asked for") return std::string(kElse);
  const auto command = [&]() -> std::string {
    if (kept.name == "persistence") return "persistence " + kept.wanted;
    if (kept.name == "compute mode") return "compute-mode " + kept.wanted;
    if (kept.name == "power") return "power set " + kept.wanted;
    if (kept.name == "graphics clocks") return "clocks lock --graphics " + kept.wanted;
    if (kept.name == "memory clocks") return "clocks lock --memory " + kept.wanted;
    if (kept.name == "ecc") return "ecc " + kept.wanted;
    return {};
  }();
  return command.empty() ? std::string(kElse) : fmt::format("gpuman device {} --gpu {}", command, kept.gpu);
}

}  // namespace

Findings CheckSettings(const Facts& facts) {
  if (!facts.daemon.kept) return OneFinding(kUnknown, "n/a without the daemon");
  Findings findings;
  for (const auto& kept : *facts.daemon.kept) {
    const auto add = AdderFor(findings, kept.gpu);
    if (kept.drift)
      add(kWarning,
          fmt::format("{}: {} is wanted ({}), and it is {}", kept.name, kept.wanted, kept.because,
                      kept.now.value_or("something else")),
          RemedyOfDrift(kept));
    else if (kept.locked)
      add(kNote, fmt::format("{} are locked to {} MHz: {}", kept.name, kept.wanted, kept.because),
          fmt::format("gpuman device clocks reset --gpu {}", kept.gpu));
  }
  return findings.empty() ? OneFinding(kFine, "all settings are as wanted, and no clocks are locked")
                          : findings;
}

Findings CheckMig(const Facts& facts) {
  return OfEach(facts, "MIG has the layout that was asked for", [](const GpuFacts& gpu) -> Said {
    if (!gpu.mig) return std::nullopt;
    if (gpu.mig_pending && *gpu.mig_pending != *gpu.mig)
      return Say(kWarning,
                 fmt::format("MIG is {} and turns {} with the next reset", *gpu.mig ? "on" : "off",
                             *gpu.mig_pending ? "on" : "off"),
                 fmt::format("nvidia-smi --gpu-reset -i {} while nobody uses it, or reboot", gpu.index));
    if (*gpu.mig && gpu.mig_instances && *gpu.mig_instances == 0)
      return Say(kWarning, "MIG is on and there is no instance: nothing can run on it",
                 fmt::format("gpuman mig apply --gpu {} PROFILES, or gpuman mig clear --gpu {} --disable",
                             gpu.index, gpu.index));
    return Say(kFine, "");
  });
}

Findings CheckMps(const Facts& facts) {
  if (!facts.daemon.mps) return OneFinding(kUnknown, "n/a without the daemon");
  Findings findings;
  for (const auto& mps : *facts.daemon.mps) {
    const auto add = AdderFor(findings, mps.gpu);
    if (mps.state == "dead")
      add(kError, "MPS is wanted, but does not run: " + mps.problem,
          fmt::format("gpuman mps start --gpu {}", mps.gpu));
    else if (mps.state == "foreign")
      add(kNote, "an MPS that gpuman did not start may serve it", "gpuman mps status");
    else if (mps.state == "running" && !mps.problem.empty())
      add(kWarning, "its MPS cannot be asked: " + mps.problem, "gpuman mps status");
    if (mps.outside > 0)
      add(kWarning,
          fmt::format("{} process{} beside its MPS server, without its limits", mps.outside,
                      mps.outside == 1 ? " runs" : "es run"),
          fmt::format("gpuman run --mps; to have the driver refuse them: gpuman device compute-mode "
                      "exclusive-process --gpu {}",
                      mps.gpu));
  }
  return findings.empty() ? OneFinding(kFine, "MPS works where it runs") : findings;
}

Findings CheckIdle(const Facts& facts) {
  if (!facts.daemon.idle) return OneFinding(kUnknown, "n/a without the daemon, which watches the processes");
  Findings findings;
  for (const auto& process : *facts.daemon.idle)
    findings.push_back({"", kWarning, fmt::format("GPU {}", process.gpu),
                        fmt::format("pid {} ({}, user {}) has held {} for {} without using the GPU",
                                    process.pid, process.name, process.user,
                                    process.memory ? base::FormatBytes(*process.memory) : "memory",
                                    base::FormatDuration(process.idle)),
                        fmt::format("ask {}, or: kill {}", process.user, process.pid)});
  return findings.empty() ? OneFinding(kFine, "no process holds memory without using the GPU") : findings;
}

}  // namespace gpuman::doctor
