#include "shim/libc/hash_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

namespace gpuman::shim {
namespace {

TEST(HashTable, AZeroIsNoKey) {
  HashTable<std::uint64_t> table;
  std::uint64_t value = 0;
  EXPECT_EQ(table.Find(0), nullptr);
  EXPECT_EQ(table.Insert(0), nullptr);
  EXPECT_FALSE(table.Take(0, value));
}

TEST(HashTable, GrowsAndKeepsWhatItHas) {
  HashTable<std::uint64_t> table;
  for (std::uint64_t key = 1; key <= 10'000; ++key) *table.Insert(key << 21) = key;
  EXPECT_EQ(table.size(), 10'000u);
  for (std::uint64_t key = 1; key <= 10'000; ++key) ASSERT_EQ(*table.Find(key << 21), key);
  table.Reset();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.Find(1 << 21), nullptr);
}

RC_GTEST_PROP(TableProperty, HoldsWhatAMapHolds, ()) {
  HashTable<std::uint64_t> table;
  std::map<std::uint64_t, std::uint64_t> model;
  const auto steps = *rc::gen::container<std::vector<std::pair<bool, unsigned>>>(
      rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange(1u, 400u)));
  for (const auto& [insert, small] : steps) {
    const std::uint64_t key = std::uint64_t{small} << 21;
    if (insert) {
      model[key] = ++*table.Insert(key);
    } else {
      std::uint64_t value = 0;
      const auto found = model.find(key);
      RC_ASSERT(table.Take(key, value) == (found != model.end()));
      if (found != model.end()) {
        RC_ASSERT(value == found->second);
        model.erase(found);
      }
    }
  }
  RC_ASSERT(table.size() == model.size());
  for (const auto& [key, value] : model) RC_ASSERT(table.Find(key) != nullptr && *table.Find(key) == value);
  std::size_t seen = 0;
  table.ForEach([&](std::uint64_t key, std::uint64_t value) {
    RC_ASSERT(model.at(key) == value);
    ++seen;
  });
  RC_ASSERT(seen == model.size());
  table.Reset();
}

}  // namespace
}  // namespace gpuman::shim
