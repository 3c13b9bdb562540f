// Prints the output of a job that comes in pieces.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command_context.h"

namespace gpuman::cli {

// As it is, or in JSON mode as one {"line":"…"} for each line; a last line without a line end counts as a
// line.
class LogPrinter {
 public:
  // `most`: the number of lines that are printed; absent: all.
  explicit LogPrinter(CommandContext& session, std::optional<int> most = {})
      : session_(session), most_(most) {}

  // False: all lines are printed that should be, or no more can be.
  bool Feed(std::string_view piece) {
    if (most_) piece = piece.substr(0, FirstLines(piece));
    if (session_.json)
      FeedJson(piece);
    else
      session_.PrintOutput(piece);
    session_.Flush();
    return (!most_ || *most_ > 0) && session_.output_error() == 0;
  }
  void Finish() {
    if (!partial_.empty()) EmitJson();
  }

 private:
  // How many bytes of the piece belong to the lines that are left.
  std::size_t FirstLines(std::string_view piece) {
    std::size_t end = 0;
    while (*most_ > 0 && end < piece.size()) {
      const auto line_end = piece.find('\n', end);
      if (line_end == piece.npos) return piece.size();
      end = line_end + 1;
      --*most_;
    }
    return end;
  }
  void FeedJson(std::string_view piece) {
    for (;;) {
      const auto end = piece.find('\n');
      partial_ += piece.substr(0, end);
      if (end == piece.npos) return;
      EmitJson();
      piece.remove_prefix(end + 1);
    }
  }
  void EmitJson() {
    session_.PrintJson({{"line", partial_}});
    partial_.clear();
  }

  CommandContext& session_;
  std::optional<int> most_;
  std::string partial_;
};

}  // namespace gpuman::cli
