// A block: some rows of one series as bytes, by columns. Pure. docs/history.md describes the bytes.
//
//   head     length of the series' name and the name, first time, time from the first to the last,
//            number of rows
//   columns  times; seconds, waiting, suspended; of each metric: count, sum, mean - min, max - mean
//
// Times are written as differences of differences, other columns as differences; zeros in a row are one
// number. So what does not change costs a byte or two, however many rows there are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "history/point.h"

namespace gpuman::history {

inline constexpr std::size_t kMaxRows = 4096;     // of a block
inline constexpr std::size_t kLongestName = 128;  // of a series, in bytes
inline constexpr std::size_t kLongestBlock = 1u << 20;

// `rows`: sound, at least one and at most kMaxRows, each later than the one before.
std::string EncodeBlock(std::string_view name, std::span<const Row> rows);

// The head of a block. It refers to the block's bytes.
struct BlockHead {
  std::string_view name;
  std::int64_t first = 0, last = 0;  // times of rows
  std::size_t rows = 0;
  std::string_view columns;
};
// kCorrupt: these bytes are no block.
base::Result<BlockHead> ReadHead(std::string_view block);
// What is returned could have been recorded: all rows are sound, and their times rise.
base::Result<std::vector<Row>> ReadRows(const BlockHead& head);

}  // namespace gpuman::history
