// ParseJobSpec returns for any text in the database. A spec that it accepts reads the same after it was
// written.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "spec/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::spec;  // NOLINT(google-build-using-namespace)
  const auto spec = ParseJobSpec(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!spec) return 0;
  const std::string once = Serialize(*spec);
  const auto again = ParseJobSpec(once);
  if (!again || *again != *spec || Serialize(*again) != once) std::abort();
  return 0;
}
