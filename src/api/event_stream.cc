#include "api/event_stream.h"

#include <utility>

namespace gpuman::api {

std::vector<std::string> EventStreamReader::Feed(std::string_view bytes) {
  std::vector<std::string> complete;
  for (const char c : bytes) {
    const bool second_of_crlf = c == '\n' && after_cr_;
    after_cr_ = c == '\r';
    if (second_of_crlf) continue;
    if (c == '\n' || c == '\r')
      EndLine(complete);
    else
      line_ += c;
  }
  return complete;
}

void EventStreamReader::EndLine(std::vector<std::string>& complete) {
  std::string_view line = line_;
  if (line.empty()) {
    if (has_data_) complete.push_back(std::exchange(data_, {}));
    has_data_ = false;
    return;
  }
  if (line == "data" || line.starts_with("data:")) {
    line.remove_prefix(line.size() > 4 ? 5 : 4);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace gpuman::api
