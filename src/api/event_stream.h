// Splits a text/event-stream (the HTML standard's server-sent events) into events as its bytes come.
//
// Keeps `data` of each event; skips `id`, `event` and comments, which repeat what the data say. Lines end
// with LF, CR LF or CR. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuman::api {

class EventStreamReader {
 public:
  // The data of every event that `bytes` completes, in order.
  std::vector<std::string> Feed(std::string_view bytes);

 private:
  void EndLine(std::vector<std::string>& complete);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace gpuman::api
