// Decoding does not crash for any text, and accepts no value that encodes to something else.
#include <cstdlib>
#include <string_view>

#include "api/event_stream.h"
#include "api/json.h"
#include "api/queue_json.h"
#include "api/queue_rows.h"

namespace {

template <typename T>
void RoundTrip(std::string_view text) {
  const auto value = gpuman::api::Decode<T>(text);
  if (!value) return;
  const std::string once = gpuman::api::Encode(*value);
  const auto again = gpuman::api::Decode<T>(once);
  if (!again || gpuman::api::Encode(*again) != once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::api;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  RoundTrip<RunRequest>(text);
  RoundTrip<RunOptionsPatch>(text);
  RoundTrip<StatusView>(text);
  RoundTrip<SubmitRequest>(text);
  RoundTrip<JobUpdate>(text);
  RoundTrip<EventView>(text);
  (void)ErrorOfAnswer(500, text);
  (void)ParseQueueRows(text);
  EventStreamReader reader;
  (void)reader.Feed(text);
  return 0;
}
