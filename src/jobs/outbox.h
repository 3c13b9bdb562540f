// A message that is stored with the change it tells of, until it is delivered. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuman::jobs {

struct OutboxRow {
  std::int64_t number = 0;  // grows; never used again
  std::optional<std::int64_t> job;
  std::string user;    // whose it is; empty: the administrators'
  std::string record;  // as notify/message.h writes it; nothing here reads it
  friend bool operator==(const OutboxRow&, const OutboxRow&) = default;
};

}  // namespace gpuman::jobs
