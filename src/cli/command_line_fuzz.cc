// SplitCommand ends for every text, and the words that it returns join to a text that splits to the same
// words.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/command_line.h"
#include "cli/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::cli;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (Width(Cut(Printable(text), 20)) > 20) std::abort();
  auto words = SplitCommand(text);
  if (!words) return 0;
  words->insert(words->begin(), "program");
  const auto again = SplitCommand(JoinCommand(*words));
  if (!again || *again != *words) std::abort();
  return 0;
}
