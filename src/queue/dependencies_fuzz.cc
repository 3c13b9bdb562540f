// Any text that names a job is either parsed or refused.
#include <cstdint>
#include <string_view>

#include "queue/dependencies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)gpuman::queue::ParseReference(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
