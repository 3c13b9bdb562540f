// The keeper's parsers return whatever a file or a packet holds; what they accept reads the same after it was
// written.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/cgroup.h"
#include "keeper/journal.h"
#include "keeper/protocol.h"
#include "keeper/spec.h"
#include "keeper/test_history.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::keeper;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const auto journal = ParseJournal(text);
  if (journal.end.whole_bytes > size) std::abort();
  (void)Summarize(journal.records).last_seq;
  if (const auto record = ParseRecord(text); record && ParseRecord(SerializeRecord(*record)) != *record)
    std::abort();
  if (const auto spec = ParseSpec(text); spec && ParseSpec(SerializeSpec(*spec)) != *spec) std::abort();
  if (const auto message = ParseClientMessage(text);
      message && !ParseClientMessage(SerializeMessage(*message)))
    std::abort();
  if (const auto message = ParseKeeperMessage(text);
      message && !ParseKeeperMessage(SerializeMessage(*message)))
    std::abort();
  if (const auto settings = ParseSettings(text);
      settings && ParseSettings(SerializeSettings(*settings)) != *settings)
    std::abort();
  (void)gpuman::base::FindCgroup2Mount(text);
  (void)gpuman::base::Cgroup2Path(text);
  return 0;
}
