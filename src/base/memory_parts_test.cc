#include "base/memory_parts.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(FormatParts, NamesTheThreeLargestInTheirOrder) {
  EXPECT_EQ(FormatParts({}), "");
  MemoryParts parts;
  parts.pools = MiB(200);
  EXPECT_EQ(FormatParts(parts), "200MiB in pools");
  EXPECT_EQ(FormatParts(parts, Bytes{0}), "200MiB in pools");
  EXPECT_EQ(FormatParts(parts, MiB(50)), "200MiB in pools, 50MiB of them unused");
  parts.allocations = MiB(100);
  parts.contexts = MiB(300);
  parts.uncounted = MiB(20);
  parts.arrays = MiB(1);
  EXPECT_EQ(FormatParts(parts), "320MiB in contexts and code, 200MiB in pools, 100MiB in allocations");
  EXPECT_EQ(parts.Sum(), MiB(621));
}

}  // namespace
}  // namespace gpuman::base
