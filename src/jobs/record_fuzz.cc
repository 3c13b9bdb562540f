// For any text in the database, ParseJob returns; an accepted text reads the same after it is written again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "jobs/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::jobs;  // NOLINT(google-build-using-namespace)
  const auto job = ParseJob({reinterpret_cast<const char*>(data), size});
  if (!job) return 0;
  const std::string once = SerializeJob(*job);
  const auto again = ParseJob(once);
  if (!again || SerializeJob(*again) != once) std::abort();
  return 0;
}
