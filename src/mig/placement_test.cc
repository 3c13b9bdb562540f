// Compares the search with an enumeration that shares no code with it. The enumeration goes through the
// slices of the memory from first to last. At each slice it puts no instance, or an instance that may start
// there.
#include "mig/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "mig/test_tables.h"

namespace gpuman::mig {
namespace {

using sim::MigKind;
using testing::HasSubstr;

constexpr unsigned kMemorySlices = 8;
constexpr std::size_t kMaxInstances = 7;

struct Arrangement {
  std::vector<unsigned> counts;                       // by profile
  std::uint32_t taken = 0;                            // bits: slices of the memory
  std::vector<std::pair<unsigned, unsigned>> placed;  // profile, start
};

bool IsWithin(std::span<const sim::MigProfile> rows, const std::vector<unsigned>& counts) {
  unsigned decoders = 0, jpegs = 0, ofas = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (counts[i] > rows[i].most) return false;
    decoders += counts[i] * rows[i].decoders;
    jpegs += counts[i] * rows[i].jpegs;
    ofas += counts[i] * rows[i].ofas;
  }
  const auto& whole = rows.back();
  return decoders <= whole.decoders && jpegs <= whole.jpegs && ofas <= whole.ofas;
}

void Walk(std::span<const sim::MigProfile> rows, unsigned slice, Arrangement& now,
          std::vector<Arrangement>& all) {
  if (slice >= kMemorySlices) {
    if (IsWithin(rows, now.counts)) all.push_back(now);
    return;
  }
  Walk(rows, slice + 1, now, all);
  for (unsigned i = 0; i < rows.size(); ++i) {
    if ((rows[i].starts >> slice & 1) == 0) continue;
    ++now.counts[i];
    now.placed.emplace_back(i, slice);
    Walk(rows, slice + rows[i].size, now, all);
    now.placed.pop_back();
    --now.counts[i];
  }
}

std::vector<Arrangement> Arrangements(std::span<const sim::MigProfile> rows) {
  Arrangement none{std::vector<unsigned>(rows.size()), 0, {}};
  std::vector<Arrangement> all;
  Walk(rows, 0, none, all);
  return all;
}

// Visits every multiset of at most `left` more profiles from `first` on.
template <typename Visit>
void EachMultiset(std::size_t profiles, std::size_t first, std::size_t left, std::vector<std::size_t>& chosen,
                  const Visit& visit) {
  visit(chosen);
  for (std::size_t i = first; left > 0 && i < profiles; ++i) {
    chosen.push_back(i);
    EachMultiset(profiles, i, left - 1, chosen, visit);
    chosen.pop_back();
  }
}

std::vector<unsigned> CountsOf(const std::vector<std::size_t>& chosen, std::size_t profiles) {
  std::vector<unsigned> counts(profiles);
  for (const auto i : chosen) ++counts[i];
  return counts;
}

void ExpectValid(const Geometry& geometry, const std::vector<std::size_t>& chosen,
                 const std::vector<PlacedInstance>& placed) {
  ASSERT_EQ(placed.size(), chosen.size());
  std::uint32_t taken = 0;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    EXPECT_EQ(placed[i].profile, chosen[i]);
    EXPECT_THAT(geometry[chosen[i]].placements, testing::Contains(placed[i].placement));
    const std::uint32_t bits = ((1u << placed[i].placement.size) - 1) << placed[i].placement.start;
    EXPECT_EQ(taken & bits, 0u);
    taken |= bits;
  }
}

class EveryMultiset : public testing::TestWithParam<MigKind> {};

TEST_P(EveryMultiset, IsPlacedExactlyWhereTheTablesHaveAnArrangementOfIt) {
  const auto rows = sim::MigProfiles(GetParam());
  const Geometry geometry = GeometryOf(GetParam());
  std::set<std::vector<unsigned>> possible;
  for (const auto& each : Arrangements(rows)) possible.insert(each.counts);
  std::size_t found = 0, refused = 0;
  std::vector<std::size_t> chosen;
  EachMultiset(rows.size(), 0, kMaxInstances, chosen, [&](const std::vector<std::size_t>& profiles) {
    const auto placed = FindPlacements(geometry, {}, profiles);
    ASSERT_EQ(placed.has_value(), possible.contains(CountsOf(profiles, rows.size())))
        << testing::PrintToString(profiles);
    ++(placed ? found : refused);
    if (placed)
      ExpectValid(geometry, profiles, *placed);
    else
      EXPECT_EQ(WhyNot(geometry, profiles).code, base::ErrorCode::kUnsatisfiable);
  });
  // No multiset with an arrangement was left out because of its length.
  EXPECT_EQ(found, possible.size());
  EXPECT_GT(refused, found);
}

TEST_P(EveryMultiset, IsPlacedBesideWhatIsThereExactlyWhereSomeArrangementHasBoth) {
  const auto rows = sim::MigProfiles(GetParam());
  const Geometry geometry = GeometryOf(GetParam());
  // For each instance at each of its places: the profiles that fit beside it.
  std::map<std::pair<unsigned, unsigned>, std::set<std::vector<unsigned>>> beside;
  for (const auto& each : Arrangements(rows)) {
    for (const auto& placed : each.placed) {
      auto counts = each.counts;
      --counts[placed.first];
      beside[placed].insert(counts);
    }
  }
  for (const auto& each : beside) {
    const auto& placed = each.first;
    const auto& possible = each.second;
    const std::vector<PlacedInstance> taken = {{placed.first, {placed.second, rows[placed.first].size}}};
    std::vector<std::size_t> chosen;
    EachMultiset(rows.size(), 0, 4, chosen, [&](const std::vector<std::size_t>& profiles) {
      ASSERT_EQ(FindPlacements(geometry, taken, profiles).has_value(),
                possible.contains(CountsOf(profiles, rows.size())))
          << rows[placed.first].name << " at " << placed.second << ", " << testing::PrintToString(profiles);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, EveryMultiset,
                         testing::Values(MigKind::kA30, MigKind::kA100With40, MigKind::kA100With80,
                                         MigKind::kH100With80, MigKind::kH100With94, MigKind::kH100With96,
                                         MigKind::kH200));

// NVIDIA's guide shows the ways to split an A100 fully with its five plain profiles.
TEST(MigArrangements, OfAnA100AreTheNineteenThatAreKnown) {
  std::vector<sim::MigProfile> plain;
  for (const auto& row : sim::MigProfiles(MigKind::kA100With40))
    if (std::string_view(row.name) != "1g.5gb+me" && std::string_view(row.name) != "1g.10gb")
      plain.push_back(row);
  const auto all = Arrangements(plain);
  const auto is_part = [](const Arrangement& a, const Arrangement& b) {
    return a.placed.size() < b.placed.size() &&
           std::includes(b.placed.begin(), b.placed.end(), a.placed.begin(), a.placed.end());
  };
  std::vector<Arrangement> sorted = all;
  for (auto& each : sorted) std::sort(each.placed.begin(), each.placed.end());
  const auto full = std::count_if(sorted.begin(), sorted.end(), [&](const Arrangement& each) {
    return std::none_of(sorted.begin(), sorted.end(),
                        [&](const Arrangement& other) { return is_part(each, other); });
  });
  EXPECT_EQ(full, 19);
}

std::string Why(MigKind kind, const std::vector<std::size_t>& profiles) {
  const Geometry geometry = GeometryOf(kind);
  EXPECT_FALSE(FindPlacements(geometry, {}, profiles));
  return WhyNot(geometry, profiles).message;
}

TEST(WhyNot, SaysWhatThereIsTooMuchOf) {
  EXPECT_EQ(Why(MigKind::kH200, {4, 4, 4}), "3 of 3g.71gb are too many: a GPU takes 2");
  EXPECT_EQ(Why(MigKind::kH200, {1, 1}), "2 of 1g.18gb+me are too many: a GPU takes 1");
  EXPECT_EQ(Why(MigKind::kH200, {6, 0}), "the instances need 9 slices of memory, and the GPU has 8");
  EXPECT_THAT(Why(MigKind::kA30, {1, 3}), HasSubstr("they need 2 OFA engines and the GPU has 1"));
  EXPECT_THAT(Why(MigKind::kA100With40, {5, 0, 0, 0, 0}), HasSubstr("wherever each of them is put"));
}

TEST(FindPlacements, ADeviceWithoutProfilesTakesNothing) {
  EXPECT_EQ(FindPlacements({}, {}, {})->size(), 0u);
}

}  // namespace
}  // namespace gpuman::mig
