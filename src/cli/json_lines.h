// Prints the output of a job in JSON mode.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/session.h"

namespace gpuman::cli {

// Prints one {"line":"…"} for each line of the log; a last line without a line end counts as a line.
class JsonLines {
 public:
  explicit JsonLines(Session& session) : session_(session) {}
  void Feed(std::string_view piece) {
    for (;;) {
      const auto end = piece.find('\n');
      partial_ += piece.substr(0, end);
      if (end == piece.npos) return;
      Emit();
      piece.remove_prefix(end + 1);
    }
  }
  void Finish() {
    if (!partial_.empty()) Emit();
  }

 private:
  void Emit() {
    session_.PrintJson({{"line", partial_}});
    partial_.clear();
  }
  Session& session_;
  std::string partial_;
};

}  // namespace gpuman::cli
