// Parses what the daemon reads from its store and from the notifier.
#include <cstddef>
#include <cstdint>

#include "base/url.h"
#include "notify/address.h"
#include "notify/outbox_message.h"
#include "notify/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)gpuman::notify::ParseOrder(text).has_value();
  (void)gpuman::notify::ParseReport(text).has_value();
  (void)gpuman::notify::ParseNetwork(text).has_value();
  (void)gpuman::base::ParseHttpUrl(text).has_value();
  if (const auto message = gpuman::notify::ParseMessage(1, text))
    if (gpuman::notify::ParseMessage(1, gpuman::notify::SerializeMessage(*message)) != message)
      __builtin_trap();
  return 0;
}
