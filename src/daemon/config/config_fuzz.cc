// Any configuration file is either read or refused, and a refusal names what is wrong.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::daemon;  // NOLINT(google-build-using-namespace)
  const auto nobody = [](const std::string& name) -> std::optional<uid_t> {
    return name == "bob" ? std::optional<uid_t>(1000) : std::nullopt;
  };
  const Config defaults;
  const auto config = ParseConfig({reinterpret_cast<const char*>(data), size}, "fuzz.toml", defaults, nobody);
  if (config) return 0;
  if (config.error().empty()) std::abort();
  for (const auto& problem : config.error())
    if (Describe(problem).empty()) std::abort();
  return 0;
}
