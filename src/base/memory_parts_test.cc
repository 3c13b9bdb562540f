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

TEST(FormatParts, AlwaysNamesPoolsWithUnusedMemory) {
  MemoryParts parts;
  parts.allocations = MiB(400);
  parts.virtual_memory = MiB(300);
  parts.contexts = MiB(200);
  parts.pools = MiB(100);
  parts.arrays = MiB(50);
  const std::string largest = "400MiB in allocations, 300MiB in virtual memory, 200MiB in contexts and code";
  EXPECT_EQ(FormatParts(parts), largest);
  EXPECT_EQ(FormatParts(parts, Bytes{0}), largest);
  EXPECT_EQ(FormatParts(parts, MiB(90)), largest + ", 100MiB in pools, 90MiB of them unused");
  parts.arrays = MiB(150);
  EXPECT_EQ(FormatParts(parts, MiB(90)), largest + ", 100MiB in pools, 90MiB of them unused") << "the fifth";
}

}  // namespace
}  // namespace gpuman::base
