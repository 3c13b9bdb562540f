#include "report.h"

#include <unistd.h>

#include <chrono>
#include <string>

#include "base/file.h"
#include "exit_code.h"

namespace gpuman::load {

std::uint64_t MonotonicNs() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
}

void Report::Event(std::string_view name, const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json event{{"event", name}, {"pid", ::getpid()}, {"t_ns", MonotonicNs()}};
  event.update(fields);
  std::string line;
  if (json_) {
    line = event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  } else {
    line = std::string(name) + " [" + std::to_string(::getpid()) + "]";
    for (const auto& [key, value] : fields.items())
      line += " " + key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  // The load goes on when its reader is gone.
  (void)base::WriteAll(STDOUT_FILENO, line + "\n").has_value();
}

int Report::Failed(const base::Error& error) {
  nlohmann::ordered_json fields{{"message", error.message}};
  if (!error.hint.empty()) fields["hint"] = error.hint;
  Event("error", fields);
  return error.code == base::ErrorCode::kExhausted ? kOutOfMemory : kDriverError;
}

}  // namespace gpuman::load
