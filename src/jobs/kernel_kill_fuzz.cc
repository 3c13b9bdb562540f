// For any line of the kernel's log, ParseKernelKill and ParseKernelVictim return; what they tell of is a
// process, and its name is UTF-8.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "jobs/kernel_kill.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto victim = gpuman::jobs::ParseKernelVictim(line);
  if (victim && victim->pid <= 0) std::abort();
  const auto kill = gpuman::jobs::ParseKernelKill(line);
  if (!kill) return 0;
  if (kill->pid <= 0 || kill->memory == gpuman::base::Bytes{}) std::abort();
  if (!gpuman::base::IsUtf8(gpuman::jobs::ReasonOf(*kill).detail)) std::abort();
  return 0;
}
