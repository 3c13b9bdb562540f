#include "base/boot.h"

#include <mutex>

#include "base/file.h"

namespace gpuman::base {

std::string BootId() {
  static std::mutex mutex;
  static std::string known;
  const std::lock_guard lock(mutex);
  if (known.empty()) {
    known = ReadFile("/proc/sys/kernel/random/boot_id", 128).value_or("");
    while (!known.empty() && known.back() == '\n') known.pop_back();
  }
  return known;
}

}  // namespace gpuman::base
