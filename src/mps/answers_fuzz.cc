// The parsers return for any answer of the control program and for any environment of a client.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mps/answers.h"
#include "mps/placement.h"
#include "mps/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)gpuman::mps::ParsePids(text).has_value();
  (void)gpuman::mps::ParsePercentage(text).has_value();
  (void)gpuman::mps::ParseMemoryLimit(text).has_value();
  (void)gpuman::mps::ParseDone(text).has_value();
  (void)gpuman::mps::ParseProtocol(text);
  (void)gpuman::mps::NamesTimeSlices(text);
  (void)gpuman::mps::ParseServers(text).has_value();
  (void)gpuman::mps::ParseNamespaces(text).has_value();
  (void)gpuman::mps::ParseClients(text).has_value();
  (void)gpuman::mps::Shown({1, std::string(text)});
  (void)gpuman::mps::JobOf(text);
  (void)gpuman::mps::MemoryVariable(text);
  (void)gpuman::mps::ThreadsVariable(text);
  (void)gpuman::mps::ParseRecord(text).has_value();
  return 0;
}
