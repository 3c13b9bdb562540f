// A file of history may hold any bytes. Rows that are read from it could have been recorded, and a block of
// them reads as the same rows.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "history/segment.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::history;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto check = [](const BlockHead& head) {
    const auto rows = ReadRows(head);
    if (!rows) return;
    for (const Row& row : *rows)
      if (!IsSound(row)) std::abort();
    const auto block = EncodeBlock(head.name, *rows);
    const auto again = ReadHead(block);
    if (!again || again->name != head.name || ReadRows(*again).value_or(std::vector<Row>{}) != *rows)
      std::abort();
  };
  const auto walked = WalkBlocks(
      text, [](const BlockHead&) { return true; }, check);
  if (walked.readable > size) std::abort();
  // Without the frame, which only bytes with the right checksum pass.
  if (const auto head = ReadHead(text)) check(*head);
  if (const auto name = ParseFileName(text); name && NameOf(*name) != text) std::abort();
  return 0;
}
