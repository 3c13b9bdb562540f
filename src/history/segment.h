// The bytes of a file of history: a header, then blocks, each behind its length and its checksum. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "history/block.h"

namespace gpuman::history {

// The header of a file; its last byte is the version.
inline constexpr std::string_view kFileHeader{"gpumhis\x01", 8};

// The block as it stands in a file: length and CRC-32C in four bytes each, the lowest first, then the block.
std::string Framed(std::string_view block);

struct WalkResult {
  std::size_t readable = 0;  // up to here one block followed the other
  std::size_t damaged = 0;   // blocks whose checksum is wrong
  bool foreign = false;      // the header is not that of a file of history
};
// Calls `on_block` for each block in the order of the file. `is_wanted` says by the head alone whether a
// block's checksum is looked at and the block is given; a damaged block is left out.
WalkResult WalkBlocks(std::string_view file, const std::function<bool(const BlockHead&)>& is_wanted,
                      const std::function<void(const BlockHead&)>& on_block);

// "gpu-10s-00000012.history" and back.
struct FileName {
  SubjectKind kind = SubjectKind::kGpu;
  std::size_t tier = 0;
  std::uint64_t number = 0;
};
std::string NameOf(const FileName& name);
std::optional<FileName> ParseFileName(std::string_view name);

}  // namespace gpuman::history
