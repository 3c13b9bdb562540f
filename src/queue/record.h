// A request as text: one JSON object on one line, with its version. Fields with their default are left out,
// so most requests are short and equal ones have equal text: many jobs can share one string.
//
//   {"depends":{"list":[["afterok",7]]},"gpus":{"count":2},"time_limit_ms":7200000,"v":1}
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "queue/request.h"

namespace gpuman::queue {

// Strings are UTF-8, as they came in JSON; other bytes are replaced.
std::string SerializeRequest(const Request& request);

// kCorrupt for text that SerializeRequest of this version or an older one did not write: another version,
// unknown fields, wrong types, values that Validate() refuses.
base::Result<Request> ParseRequest(std::string_view text);

}  // namespace gpuman::queue
