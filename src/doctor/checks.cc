#include "doctor/checks.h"

#include <algorithm>
#include <array>

#include "doctor/gpu_checks.h"
#include "doctor/host_checks.h"

namespace gpuman::doctor {
namespace {

constexpr std::array kChecks{
    Check{"driver", &CheckDriver},
    Check{"driver_versions", &CheckVersions},
    Check{"gpus", &CheckGpus},
    Check{"health", &CheckHealth},
    Check{"persistence", &CheckPersistence},
    Check{"ecc", &CheckEcc},
    Check{"throttling", &CheckThrottling},
    Check{"throttled_before", &CheckThrottledBefore},
    Check{"clocks", &CheckClocks},
    Check{"power_limit", &CheckPower},
    Check{"settings", &CheckSettings},
    Check{"pcie_link", &CheckLink},
    Check{"peer_access", &CheckPeerAccess},
    Check{"mig", &CheckMig},
    Check{"mps", &CheckMps},
    Check{"idle_processes", &CheckIdle},
    Check{"daemon", &CheckDaemon},
    Check{"access", &CheckAccess},
    Check{"config", &CheckConfig},
    Check{"shim", &CheckShim},
    Check{"host_memory", &CheckHostMemory},
    Check{"memlock", &CheckMemlock},
    Check{"shared_memory", &CheckShm},
    Check{"huge_pages", &CheckHugePages},
    Check{"cgroups", &CheckCgroups},
    Check{"state_disk", &CheckDisk},
};

}  // namespace

std::string_view ToString(Severity severity) {
  switch (severity) {
    case Severity::kFine:
      return "ok";
    case Severity::kUnknown:
      return "unknown";
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "unknown";
}

std::span<const Check> Checks() { return kChecks; }

Findings Examine(const Facts& facts) {
  Findings all;
  for (const Check& check : kChecks)
    for (auto& finding : check.examine(facts)) {
      finding.check = check.id;
      all.push_back(std::move(finding));
    }
  return all;
}

bool IsWrong(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kWarning || finding.severity == Severity::kError;
  });
}

}  // namespace gpuman::doctor
