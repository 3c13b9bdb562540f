// For any text of a size or a time the parsers return. What they accept is in their promised range, and a
// whole number of bytes that is written out reads as the same number.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::base;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = ParseBytes(text)) {
    if (bytes->count == 0 || bytes->count > INT64_MAX) std::abort();
    const auto again = ParseBytes(std::to_string(bytes->count));
    if (!again || *again != *bytes) std::abort();
    if (FormatBytes(*bytes).empty()) std::abort();
  }
  if (const auto spec = ParseSize(text)) {
    if (spec->IsRelative() && !(spec->percent <= 100)) std::abort();
    if (spec->Of(Bytes{1}).count > 1 && spec->IsRelative()) std::abort();
  }
  if (const auto time = ParseDuration(text)) {
    if (time->count() < 0 || FormatDuration(*time).empty()) std::abort();
  }
  return 0;
}
