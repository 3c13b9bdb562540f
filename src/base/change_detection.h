// How memory that leaves a GPU is compared with what the host still has of it from the last time: what has
// not changed needs no copy. An administrator sets it (share/settings.h), and movers are told it
// (suspend/request.h).
#pragma once

#include <string_view>

#include "base/words.h"

namespace gpuman::base {

enum class ChangeDetection {
  kHash,     // the GPU hashes it
  kCompare,  // the same; what the hash says is unchanged is copied as well, and compared byte by byte
  kOff,      // not at all: all of it is copied, and no copies are kept
};
constexpr auto WordsOf(ChangeDetection) {
  using enum ChangeDetection;
  return Words<ChangeDetection, 3>{{{kHash, "hash"}, {kCompare, "compare"}, {kOff, "off"}}};
}
constexpr std::string_view ToString(ChangeDetection how) { return WordOf(WordsOf(how), how); }

}  // namespace gpuman::base
