#include "base/remove_tree.h"

#include <chrono>
#include <thread>

namespace gpuman::base {

Result<> RemoveTree(const std::filesystem::path& path) {
  constexpr int kTries = 20;
  std::error_code error;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::filesystem::remove_all(path, error);
    if (!error) return {};
  }
  return FailSystem(error.value(), "removing " + path.string());
}

}  // namespace gpuman::base
