#include "health/xid_log.h"

#include <algorithm>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::health {
namespace {

std::string_view Trimmed(std::string_view text) { return base::Trimmed(text, " \t\n\v\f\r"); }

// The part up to the next comma; it is removed from `rest` with the comma.
std::string_view TakeField(std::string_view& rest) { return Trimmed(base::TakeUntil(rest, ',')); }

// "0000:3b:00" means "0000:3b:00.0": the driver leaves the function out.
std::string Whole(std::string_view pci) {
  std::string whole = base::LowerCase(pci);
  if (whole.find('.') == std::string::npos) whole += ".0";
  return whole;
}

}  // namespace

std::optional<LoggedXid> ParseXidLine(std::string_view line) {
  constexpr std::string_view kBegin = "NVRM: Xid (PCI:";
  const auto at = line.find(kBegin);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + kBegin.size());
  const auto close = rest.find("): ");
  if (close == std::string_view::npos || close == 0) return std::nullopt;
  LoggedXid logged;
  logged.pci = Whole(rest.substr(0, close));
  rest.remove_prefix(close + 3);
  const auto xid = base::ParseNumber<unsigned>(TakeField(rest));
  if (!xid) return std::nullopt;
  logged.xid = *xid;
  rest = Trimmed(rest);
  if (constexpr std::string_view kPid = "pid="; rest.starts_with(kPid)) {
    auto field = TakeField(rest);
    field.remove_prefix(kPid.size());
    if (field.size() >= 2 && field.front() == '\'' && field.back() == '\'')
      field = field.substr(1, field.size() - 2);
    logged.pid = base::ParseNumber<pid_t>(field);
    if (logged.pid && *logged.pid <= 0) logged.pid.reset();
  }
  logged.text = Trimmed(rest);
  return logged;
}

bool IsSameDevice(std::string_view nvml_bus_id, std::string_view logged) {
  const auto nvml = Whole(nvml_bus_id), other = Whole(logged);
  const auto colon = nvml.find(':'), other_colon = other.find(':');
  if (colon == std::string::npos || other_colon == std::string::npos) return false;
  // NVML writes the domain with eight digits, the kernel with four.
  const auto domain = [](std::string text) {
    return text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
  };
  return domain(nvml.substr(0, colon)) == domain(other.substr(0, other_colon)) &&
         nvml.substr(colon) == other.substr(other_colon);
}

}  // namespace gpuman::health
