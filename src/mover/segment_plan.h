// Which segments of host memory are to be made ahead of need, and which are too many. Values; the functions
// are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace gpuman::mover {

// How many segments there are of each size.
using Stock = std::map<std::uint64_t, std::size_t>;

std::uint64_t BytesOf(const Stock& stock);
Stock SumOf(const Stock& one, const Stock& other);

// The segments that these processes' memory takes, as many bytes each: a process takes segments of its own.
// Processes with less than the smallest segment count as one, so that many small ones do not take much more
// than they have.
Stock StockFor(std::span<const std::uint64_t> processes);

// All segments together may have so many bytes more than are wanted.
inline constexpr std::uint64_t kSlack = std::uint64_t{2} << 30;

// The sizes to make, so that `there` is what is `wanted`; the largest first, as far as the slack allows.
std::vector<std::uint64_t> Missing(const Stock& there, const Stock& wanted);

// The size of a free segment to give up; nullopt: none is too many. `taken`: segments that hold data.
std::optional<std::uint64_t> Surplus(const Stock& free, const Stock& taken, const Stock& wanted);

}  // namespace gpuman::mover
