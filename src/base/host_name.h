// The name of this machine.
#pragma once

#include <unistd.h>

#include <array>
#include <optional>
#include <string>

namespace gpuman::base {

// nullopt: the kernel does not say, or the machine has no name. Thread-safe.
inline std::optional<std::string> HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return std::nullopt;
  return std::string(name.data());
}

}  // namespace gpuman::base
