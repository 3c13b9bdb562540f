// For any text of /proc/PID/cgroup: an id that is found has 64 digits, and the path is part of a line and
// contains the id.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/container.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::base;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto found = ParseContainerCgroup(text)) {
    if (found->id.size() != 64 || found->path.find(found->id) == std::string::npos) std::abort();
    if (found->path.front() != '/' || text.find(found->path) == std::string_view::npos) std::abort();
    if (found->pod_uid.empty() == found->pod_class.has_value()) std::abort();
  }
  if (const auto point = CgroupMountPoint(text, size % 2 == 0 ? "" : "memory"))
    if (text.find(*point) == std::string_view::npos) std::abort();
  return 0;
}
