// ParseRequest returns whatever the database holds; what it accepts reads the same after it was written.
// Dependencies as people type them are refused or understood.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "queue/dependencies.h"
#include "queue/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::queue;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ParseDependencies(text);
  const auto request = ParseRequest(text);
  if (!request) return 0;
  const std::string once = SerializeRequest(*request);
  const auto again = ParseRequest(once);
  if (!again || *again != *request || SerializeRequest(*again) != once) std::abort();
  return 0;
}
