// The parsers of `gpuman top` read or refuse any text of a log, of a terminal's mouse and of /proc, and any
// filter.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/text.h"
#include "cli/top/frame.h"
#include "cli/top/log_lines.h"
#include "cli/top/mouse.h"
#include "cli/top/process_facts.h"
#include "cli/top/rows.h"
#include "cli/top/test_state.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::cli;       // NOLINT(google-build-using-namespace)
  using namespace gpuman::cli::top;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& line : LogLines(text)) Require(Printable(line) == line);
  MouseReader mouse;
  mouse.Begin();
  for (const char character : text)
    if (mouse.Feed(character)) mouse.Begin();
  (void)ParseFacts(text, gpuman::base::Millis(1000), {});
  (void)ParseHost(std::string(text), std::string(text), 1);

  State state = TestState({60, 20});
  state.filter = text;
  const auto rows = RowsOf(state).size();
  state.filter.clear();
  Require(rows <= RowsOf(state).size());
  state.status.jobs[0].tag = text;
  state.status.gpus[0].processes[0].command = {std::string(text)};
  state.status.gpus[0].health = {"unhealthy", {std::string(text)}};
  for (const auto& line : Draw(state).lines) {
    Require(line.width() <= state.size.columns && Width(line.text()) == line.width());
    Require(Printable(line.text()) == line.text());
  }
  return 0;
}
