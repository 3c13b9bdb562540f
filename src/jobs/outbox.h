// A message that is stored with the change it reports, until it is delivered. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuman::jobs {

struct OutboxRow {
  std::int64_t number = 0;  // ascending; never used again
  std::optional<std::int64_t> job;
  std::string user;    // the user it belongs to; empty: the administrators
  std::string record;  // as notify/outbox_message.h writes it; the store does not read it
  friend bool operator==(const OutboxRow&, const OutboxRow&) = default;
};

}  // namespace gpuman::jobs
