// The parser reads any text, or refuses it with a reason.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/mig_layouts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::cli;  // NOLINT(google-build-using-namespace)
  const auto layouts = ParseMigLayouts({reinterpret_cast<const char*>(data), size}, "file");
  if (!layouts && layouts.error().message.empty()) std::abort();
  return 0;
}
