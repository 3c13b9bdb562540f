#include "mps/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr base::Bytes kWhole = base::GiB(80);

ClientJob Job(std::int64_t id, uid_t uid, Limits limits = {}, std::optional<int> time_slice = {}) {
  return {base::JobId{id}, uid, limits, time_slice};
}

// The servers that follow from the changes, as a control daemon makes them.
std::vector<MpsServerStatus> After(std::vector<MpsServerStatus> servers,
                                   const std::vector<MpsChange>& changes) {
  const auto merge = [](Limits& limits, const Limits& told) {
    if (told.threads) limits.threads = told.threads;
    if (told.memory) limits.memory = told.memory;
  };
  for (const auto& change : changes) {
    if (change.kind == MpsChange::Kind::kCreateServer)
      servers.push_back({4711, change.uid, {}, {}, change.server, {{"default", {}}}});
    for (auto& server : servers) {
      if (server.name != change.server) continue;
      auto& inner = server.namespaces;
      if (change.kind == MpsChange::Kind::kLimitServer) merge(server.limits, change.limits);
      if (change.kind == MpsChange::Kind::kCreateNamespace) inner.push_back({change.name_space, {}});
      for (auto& one : inner)
        if (change.kind == MpsChange::Kind::kLimitNamespace && one.name == change.name_space)
          merge(one.limits, change.limits);
      if (change.kind == MpsChange::Kind::kDeleteNamespace)
        std::erase_if(inner, [&](const auto& one) { return one.name == change.name_space; });
    }
    if (change.kind == MpsChange::Kind::kDeleteServer)
      std::erase_if(servers, [&](const auto& server) { return server.name == change.server; });
  }
  return servers;
}

TEST(MpsPlacement, AJobIsInItsUsersServerUnderTheLowerLimits) {
  const Limits gpu{50.0, base::GiB(8)};
  EXPECT_EQ(PlacementOf(Job(7, 1000), gpu), (MpsNamespacePlacement{"u1000", "job7", 1000, gpu, {}}));
  EXPECT_EQ(PlacementOf(Job(7, 1000, {25.0, base::GiB(16)}), gpu).limits, (Limits{25.0, base::GiB(8)}));
  EXPECT_EQ(PlacementOf(Job(7, 1000, {{}, base::GiB(1)}), {}).limits, (Limits{{}, base::GiB(1)}));
}

TEST(MpsPlacement, AJobWithAShareOfTheTimeHasAServerOfItsOwn) {
  EXPECT_EQ(PlacementOf(Job(9, 1000, {}, 30), {}), (MpsNamespacePlacement{"job9", "job9", 1000, {}, 30}));
}

TEST(MpsPlacement, OnlyNamesThatGpumanGivesAreOfJobs) {
  EXPECT_EQ(JobOf("job7"), base::JobId{7});
  for (const char* other : {"job", "job0", "job07", "job-7", "job7x", "jobs7", "default", "u7", ""})
    EXPECT_FALSE(JobOf(other)) << other;
}

TEST(MpsPlacement, WhatIsMissingIsMadeWithItsLimits) {
  const WantedOnGpu wanted{{50.0, {}}, kWhole, {Job(7, 1000, {{}, base::GiB(2)}), Job(9, 1001, {}, 30)}};
  const auto changes = ChangesFor({}, wanted);
  EXPECT_THAT(
      changes,
      ElementsAre(MpsChange{MpsChange::Kind::kCreateServer, "job9", "", 1001, {}, 30},
                  MpsChange{MpsChange::Kind::kLimitServer, "job9", "", 0, {50.0, {}}},
                  MpsChange{MpsChange::Kind::kCreateNamespace, "job9", "job9"},
                  MpsChange{MpsChange::Kind::kLimitNamespace, "job9", "job9", 0, {50.0, {}}},
                  MpsChange{MpsChange::Kind::kCreateServer, "u1000", "", 1000},
                  MpsChange{MpsChange::Kind::kLimitServer, "u1000", "", 0, {50.0, {}}},
                  MpsChange{MpsChange::Kind::kCreateNamespace, "u1000", "job7"},
                  MpsChange{MpsChange::Kind::kLimitNamespace, "u1000", "job7", 0, {50.0, base::GiB(2)}}));
  const auto there = After({}, changes);
  EXPECT_THAT(ChangesFor(there, wanted), IsEmpty());
  for (const auto& job : wanted.jobs) EXPECT_TRUE(IsThere(there, PlacementOf(job, wanted.limits)));
}

TEST(MpsPlacement, UsersHaveAServerEachAndJobsOfOneUserShareIt) {
  const WantedOnGpu wanted{{}, kWhole, {Job(7, 1000), Job(8, 1000), Job(9, 1001)}};
  const auto there = After({}, ChangesFor({}, wanted));
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(there[0].namespaces.size(), 3u) << "default, job7 and job8";
  EXPECT_EQ(there[1].name, "u1001");
}

TEST(MpsPlacement, WhatNoJobNeedsIsDeletedNamespacesFirst) {
  const std::vector<MpsServerStatus> there{
      {10, 1000, {}, {}, "u1000", {{"default", {}}, {"job7", {}}, {"job8", {}}}},
      {11, 1001, {}, {}, "u1001", {{"default", {}}, {"job9", {}}}}};
  EXPECT_THAT(ChangesFor(there, {{}, kWhole, {Job(8, 1000)}}),
              ElementsAre(MpsChange{MpsChange::Kind::kDeleteNamespace, "u1000", "job7"},
                          MpsChange{MpsChange::Kind::kDeleteNamespace, "u1001", "job9"},
                          MpsChange{MpsChange::Kind::kDeleteServer, "u1001"}));
}

TEST(MpsPlacement, WhatSomebodyElseMadeStays) {
  const std::vector<MpsServerStatus> there{
      {10, 1000, {}, {}, "training", {{"default", {}}, {"job7", {}}}},
      {11, 1001, {}, {}, "u1001", {{"default", {}}, {"mine", {50.0, {}}}}},
      {12, 0, {}, {}, "u01", {}}};
  EXPECT_THAT(ChangesFor(there, {{}, kWhole, {}}),
              ElementsAre(MpsChange{MpsChange::Kind::kDeleteServer, "u1001"}));
  EXPECT_THAT(ChangesFor(there, {{}, kWhole, {Job(7, 1001)}}),
              ElementsAre(MpsChange{MpsChange::Kind::kCreateNamespace, "u1001", "job7"}));
}

TEST(MpsPlacement, ALimitIsSetWhereItIsAnother) {
  const Limits half{50.0, base::GiB(8)};
  const auto to_set = [&](Limits has, Limits wants) {
    const std::vector<MpsServerStatus> there{
        {10, 1000, wants, {}, "u1000", {{"default", wants}, {"job7", has}}}};
    std::vector<Limits> all;
    for (const auto& change : ChangesFor(there, {wants, kWhole, {Job(7, 1000)}}))
      all.push_back(change.limits);
    return all;
  };
  EXPECT_THAT(to_set(half, half), IsEmpty());
  EXPECT_THAT(to_set({100.0, kWhole}, {}), IsEmpty()) << "that is no limit";
  EXPECT_THAT(to_set({33.33, {}}, {100.0 / 3, {}}), IsEmpty()) << "it is written with two digits";
  EXPECT_THAT(to_set({50.0, base::Bytes{base::GiB(8).count + 1}}, half), IsEmpty()) << "in whole mebibytes";
  EXPECT_THAT(to_set({25.0, base::GiB(8)}, half), ElementsAre(Limits{50.0, {}}));
  EXPECT_THAT(to_set({50.0, base::GiB(4)}, half), ElementsAre(Limits{{}, base::GiB(8)}));
  EXPECT_THAT(to_set(half, {}), ElementsAre(Limits{100.0, kWhole})) << "the largest ones";
}

TEST(MpsPlacement, WhereTheGpusMemoryIsNotKnownALimitOfItStays) {
  const std::vector<MpsServerStatus> there{
      {10, 1000, {}, {}, "u1000", {{"default", {}}, {"job7", {{}, base::GiB(8)}}}}};
  EXPECT_THAT(ChangesFor(there, {{}, {}, {Job(7, 1000)}}), IsEmpty());
}

TEST(MpsPlacement, IsNotThereWithoutItsServerOrItsNamespace) {
  const auto placement = PlacementOf(Job(7, 1000), {});
  EXPECT_FALSE(IsThere({}, placement));
  EXPECT_FALSE(IsThere({{10, 1000, {}, {}, "u1000", {{"default", {}}}}}, placement));
  EXPECT_FALSE(IsThere({{10, 1001, {}, {}, "u1000", {{"job7", {}}}}}, placement))
      << "its server refuses every other user";
  EXPECT_TRUE(IsThere({{10, 1000, {}, {}, "u1000", {{"job7", {}}}}}, placement));
}

}  // namespace
}  // namespace gpuman::mps
