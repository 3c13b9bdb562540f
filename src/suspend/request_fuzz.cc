// The parsers return for any text that a mover of any user writes, and for any text in the store; a text that
// they accept reads the same after it was written again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "suspend/record.h"
#include "suspend/request.h"

namespace {

template <typename Parse, typename Write>
void Check(std::string_view text, Parse parse, Write write) {
  const auto value = parse(text);
  if (!value) return;
  const auto again = parse(write(*value));
  if (!again || !(*again == *value)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::suspend;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(text, ParseAnswer, [](const MoverAnswer& answer) { return Serialize(answer); });
  Check(text, ParseRequest, [](const MoverRequest& request) { return Serialize(request); });
  Check(text, ParseRecord, SerializeRecord);
  return 0;
}
