// Runs each fuzz target over its seeds, earlier findings included: a crash ends the whole program, and the
// last line of the log names the seed.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

struct Target {
  const char* name;
  int (*input)(const std::uint8_t* data, std::size_t size);
};
#include "fuzz_targets.inc"

namespace {

std::filesystem::path SeedsOf(const std::string& target) {
  return std::filesystem::path(GPUMAN_SEEDS) / target;
}

class FuzzSeeds : public testing::TestWithParam<Target> {};

TEST_P(FuzzSeeds, AreReadOrRefused) {
  ASSERT_TRUE(std::filesystem::is_directory(SeedsOf(GetParam().name)))
      << "a fuzz target has seeds in tests/fuzz/NAME";
  for (const auto& entry : std::filesystem::directory_iterator(SeedsOf(GetParam().name))) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::fprintf(stderr, "%s\n", entry.path().c_str());
    EXPECT_EQ(GetParam().input(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeeds, testing::ValuesIn(kTargets),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(SeedFolders, AreOfATargetEach) {
  std::set<std::string> known;
  for (const Target& target : kTargets) known.insert(target.name);
  for (const auto& entry : std::filesystem::directory_iterator(GPUMAN_SEEDS))
    EXPECT_TRUE(!entry.is_directory() || known.contains(entry.path().filename())) << entry.path();
}

}  // namespace
