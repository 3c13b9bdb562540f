// For any line of the kernel's log, ParseKernelKill returns; what it tells of is a process, and UTF-8.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "jobs/kernel_kill.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto kill = gpuman::jobs::ParseKernelKill({reinterpret_cast<const char*>(data), size});
  if (!kill) return 0;
  if (kill->pid <= 0 || kill->memory == gpuman::base::Bytes{}) std::abort();
  if (!gpuman::base::IsUtf8(gpuman::jobs::ReasonOf(*kill).detail)) std::abort();
  return 0;
}
