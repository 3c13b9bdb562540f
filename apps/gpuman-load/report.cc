#include "report.h"

#include <unistd.h>

#include <chrono>
#include <string>

#include "base/file.h"

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

}  // namespace gpuman::load
