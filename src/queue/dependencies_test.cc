#include "queue/dependencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

namespace gpuman::queue {
namespace {

using enum DependencyKind;
using State = DependencyState;

constexpr uid_t kAnn = 1001, kBob = 1002;

Reference Id(std::int64_t id) { return {.kind = Reference::Kind::kId, .id = {id}}; }
Reference Recent(int back) { return {.kind = Reference::Kind::kRecent, .back = back}; }
Reference Tag(std::string tag) { return {.kind = Reference::Kind::kTag, .tag = std::move(tag)}; }

TEST(QueueReferences, AreIdsTasksRecentJobsOrTags) {
  EXPECT_EQ(ParseReference("7").value(), Id(7));
  EXPECT_EQ(ParseReference("7_3").value(), (Reference{.kind = Reference::Kind::kTask, .id = {7}, .task = 3}));
  EXPECT_EQ(ParseReference("@").value(), Recent(0));
  EXPECT_EQ(ParseReference("@~2").value(), Recent(2));
  for (const char* tag : {"train", "7_", "_3", "x_3", "-7", "7a"})
    EXPECT_EQ(ParseReference(tag).value(), Tag(tag)) << tag;
  for (const char* wrong : {"", "0", "@2", "@~", "@~x", "@~99999999999"})
    EXPECT_FALSE(ParseReference(wrong)) << wrong;
}

TEST(QueueDependencies, AnArrayIsEachOfItsTasksAndEachJobIsTakenOnce) {
  const auto lookup = [](const Reference& reference) -> std::vector<JobId> {
    if (reference.kind == Reference::Kind::kTag) return {};
    return {{7}, {8}, {9}};
  };
  const auto resolved = Resolve({.list = {{kAfterOk, "7"}, {kAfterOk, "8"}, {kAfterAny, "7"}}}, lookup);
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->list.size(), 6u);
  const auto unknown = Resolve({.list = {{kAfterOk, "train"}}}, lookup);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, base::ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find("tag 'train'"), std::string::npos);
  const auto wrong = Resolve({.list = {{kAfterOk, "0"}}}, lookup);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "jobs are numbered from 1");
}

TEST(QueueDependencies, EachDependencyKindFollowsItsTable) {
  using enum AwaitedJobState;
  // Progress of the other job:        kWaits       kBegan       kOk                kNotOk kCancelled kUnknown
  const std::map<DependencyKind, std::vector<State>> table{
      {kAfterOk,
       {State::kWaits, State::kWaits, State::kMet, State::kImpossible, State::kImpossible,
        State::kImpossible}},
      {kAfterNotOk,
       {State::kWaits, State::kWaits, State::kImpossible, State::kMet, State::kMet, State::kImpossible}},
      {kAfterAny, {State::kWaits, State::kWaits, State::kMet, State::kMet, State::kMet, State::kMet}},
      {kAfter, {State::kWaits, State::kMet, State::kMet, State::kMet, State::kMet, State::kMet}},
  };
  const std::vector<AwaitedJobState> columns{kWaits, kBegan, kOk, kNotOk, kCancelled, kUnknown};
  for (const auto& [kind, row] : table)
    for (std::size_t i = 0; i < columns.size(); ++i)
      EXPECT_EQ(Judge(Dependencies{.list = {{kind, {1}}}}, [&](JobId) { return columns[i]; }), row[i])
          << ToString(kind) << " column " << i;
}

TEST(QueueDependencies, AllNeedsEachAndAnyNeedsOne) {
  using enum AwaitedJobState;
  const auto judge = [](DependencyMode mode, AwaitedJobState a, AwaitedJobState b) {
    return Judge(Dependencies{mode, {{kAfterOk, {1}}, {kAfterOk, {2}}}},
                 [&](JobId id) { return id.value == 1 ? a : b; });
  };
  EXPECT_EQ(judge(DependencyMode::kAll, kOk, kOk), State::kMet);
  EXPECT_EQ(judge(DependencyMode::kAll, kOk, kBegan), State::kWaits);
  EXPECT_EQ(judge(DependencyMode::kAll, kBegan, kNotOk), State::kImpossible);
  EXPECT_EQ(judge(DependencyMode::kAny, kNotOk, kOk), State::kMet);
  EXPECT_EQ(judge(DependencyMode::kAny, kNotOk, kBegan), State::kWaits);
  EXPECT_EQ(judge(DependencyMode::kAny, kNotOk, kNotOk), State::kImpossible);
  EXPECT_EQ(Judge({}, [](JobId) { return kWaits; }), State::kMet);
}

TEST(QueueDependencies, CirclesAreFoundWithTheWayAround) {
  const auto on = [](std::int64_t id) { return Dependencies{.list = {{kAfterOk, {id}}}}; };
  const std::map<std::int64_t, Dependencies> jobs{{1, on(2)}, {2, on(3)}, {4, on(5)}};
  const auto of = [&](JobId id) {
    const auto it = jobs.find(id.value);
    return it == jobs.end() ? nullptr : &it->second;
  };
  EXPECT_EQ(FindCircle({3}, on(1), of), (std::vector<JobId>{{3}, {1}, {2}, {3}}));
  EXPECT_EQ(FindCircle({3}, on(3), of), (std::vector<JobId>{{3}, {3}}));
  EXPECT_TRUE(FindCircle({3}, on(4), of).empty());
  EXPECT_TRUE(FindCircle({3}, {}, of).empty());
}

TEST(QueueDependents, KnowsWhoWaitsForWhom) {
  using enum AwaitedJobState;
  Dependents dependents;
  const auto progress = [](JobId) { return kWaits; };
  dependents.Set({5}, kAnn, {.list = {{kAfterOk, {1}}, {kAfterAny, {1}}, {kAfterOk, {2}}}}, progress);
  dependents.Set({4}, kAnn, {.list = {{kAfterOk, {1}}}}, progress);
  EXPECT_EQ(dependents.Of({1}), (std::vector<JobId>{{4}, {5}}));
  dependents.Set({5}, kAnn, {.list = {{kAfterOk, {3}}}}, progress);
  EXPECT_EQ(dependents.Of({1}), (std::vector<JobId>{{4}}));
  EXPECT_EQ(dependents.Of({3}), (std::vector<JobId>{{5}}));
  EXPECT_FALSE(dependents.Any({2}));
  EXPECT_TRUE(dependents.Any({1}));
  dependents.Erase({4});
  EXPECT_FALSE(dependents.Any({1}));
  EXPECT_EQ(dependents.DependenciesOf({4}), nullptr);
}

TEST(QueueDependents, ThatCanNeverStartGoWithWhatIsCancelled) {
  using enum AwaitedJobState;
  Dependents dependents;
  std::map<JobId, AwaitedJobState> ran{{{2}, kBegan}};
  const auto progress = [&](JobId id) { return ran[id]; };
  const auto waits = [&](std::int64_t job, const Dependencies& depends) {
    dependents.Set({job}, kAnn, depends, progress);
  };
  const auto auto_cancel = [](JobId id) { return id != JobId{16}; };
  waits(10, {.list = {{kAfterOk, {1}}}});
  waits(11, {.list = {{kAfterOk, {10}}, {kAfterAny, {3}}}});
  waits(12, {.list = {{kAfterAny, {1}}}});
  waits(13, {.list = {{kAfterNotOk, {2}}}});
  waits(14, {.mode = DependencyMode::kAny, .list = {{kAfterOk, {1}}, {kAfterOk, {10}}}});
  waits(15, {.mode = DependencyMode::kAny, .list = {{kAfterOk, {1}}, {kAfterOk, {3}}}});
  waits(16, {.list = {{kAfterOk, {11}}}});
  waits(17, {.list = {{kAfterOk, {16}}}});
  const std::vector<CancelImpact> all{{{10}, {1}, true},  {{12}, {1}, false}, {{14}, {1}, true},
                                      {{15}, {1}, false}, {{13}, {2}, false}, {{11}, {10}, true},
                                      {{16}, {11}, false}};
  const auto affected = [&](const std::vector<JobId>& jobs, std::size_t most) {
    AffectedSearch search(dependents, jobs, progress, auto_cancel, most);
    while (search.Continue(1)) {
    }
    return search.Take();
  };
  EXPECT_EQ(affected({{1}, {2}}, 100), all);
  EXPECT_EQ(affected({{1}, {2}}, 3).size(), 3U);
  EXPECT_TRUE(affected({{17}}, 100).empty());
}

TEST(QueueDependents, LookOnceAtWhatManyWaitFor) {
  using enum AwaitedJobState;
  constexpr std::int64_t kEach = 100;
  Dependencies all;
  for (std::int64_t id = 1; id <= kEach; ++id) all.list.push_back({kAfterOk, {id}});
  Dependents dependents;
  int looks = 0;
  const auto look = [&](JobId) { return ++looks, kWaits; };
  for (std::int64_t id = 1; id <= kEach; ++id)
    EXPECT_EQ(dependents.Set({kEach + id}, kAnn, all, look), State::kWaits);
  EXPECT_EQ(looks, kEach);
  int told = 0;
  const auto tell = [&](JobId, State state) { told += state == State::kMet; };
  for (std::int64_t id = 1; id < kEach; ++id) dependents.Tell({id}, kOk, tell);
  EXPECT_EQ(told, 0);
  dependents.Tell({kEach}, kOk, tell);
  EXPECT_EQ(told, kEach);
}

// The dependencies on so many jobs, from 1 on, and on `own`.
Dependencies OnAllAnd(std::int64_t count, std::int64_t own) {
  Dependencies depends;
  for (std::int64_t id = 1; id <= count; ++id) depends.list.push_back({kAfterAny, {id}});
  depends.list.push_back({kAfterAny, {own}});
  return depends;
}

TEST(QueueDependents, OneThatGoesCostsItsOwnListWhoeverWaitsForTheSame) {
  constexpr std::int64_t kTasks = 1'000, kWaiters = 16;
  Dependents dependents;
  const auto progress = [](JobId) { return AwaitedJobState::kWaits; };
  for (std::int64_t i = 0; i < kWaiters; ++i)
    dependents.Set({10'000 + i}, kAnn, OnAllAnd(kTasks, 5'000 + i), progress);
  EXPECT_EQ(dependents.looks(), kWaiters * (kTasks + 1));
  for (std::int64_t i = 0; i < kWaiters; ++i) {
    const auto before = dependents.looks();
    dependents.Tell({5'000 + i}, AwaitedJobState::kOk, [](JobId, State) {});
    EXPECT_EQ(dependents.looks() - before, 1U);
    dependents.Erase({10'000 + i});
    EXPECT_EQ(dependents.looks() - before, 1U + kTasks + 1U);
    EXPECT_EQ(dependents.Of({kTasks}).size(), static_cast<std::size_t>(kWaiters - i - 1));
  }
  EXPECT_FALSE(dependents.Any({1}));
  EXPECT_EQ(dependents.CountOf(kAnn), 0U);
}

// Jobs that come by turns have no neighbour with the same list.
TEST(QueueDependents, EqualListsOfOneUserAreOneWhereverTheyCome) {
  constexpr std::int64_t kTasks = 100;
  Dependents dependents;
  const auto progress = [](JobId) { return AwaitedJobState::kWaits; };
  const auto first = OnAllAnd(kTasks, 501), second = OnAllAnd(kTasks, 502);
  for (std::int64_t id = 1'000; id < 1'100; ++id)
    dependents.Set({id}, kAnn, id % 2 == 0 ? first : second, progress);
  EXPECT_EQ(dependents.looks(), 2 * (kTasks + 1));
  EXPECT_EQ(dependents.CountOf(kAnn), 2 * (kTasks + 1));
  EXPECT_EQ(dependents.DependenciesOf({1'000}), dependents.DependenciesOf({1'002}));
  EXPECT_EQ(dependents.CountOf(kBob), 0U);
  EXPECT_EQ(dependents.MoreWith({2'000}, kBob, first), static_cast<std::size_t>(kTasks + 1));
  dependents.Set({2'000}, kBob, first, progress);
  EXPECT_EQ(dependents.CountOf(kBob), kTasks + 1) << "what another has counts for nobody else";
  EXPECT_EQ(dependents.MoreWith({1'000}, kAnn, second), 0U);
  EXPECT_EQ(dependents.MoreWith({1'000}, kAnn, OnAllAnd(4, 503)), 5U) << "others still have the old list";
  EXPECT_EQ(dependents.MoreWith({2'000}, kBob, OnAllAnd(kTasks + 2, 503)), 2U) << "nobody has the old list";
  for (std::int64_t id = 1'000; id < 1'100; ++id) dependents.Erase({id});
  EXPECT_EQ(dependents.CountOf(kAnn), 0U);
  EXPECT_EQ(dependents.CountOf(kBob), kTasks + 1);
}

// So that the event loop does other work between two parts.
TEST(QueueDependents, ASearchForTheAffectedTakesNoMoreStepsThanItIsAskedTo) {
  using enum AwaitedJobState;
  constexpr std::int64_t kEach = 40;
  constexpr std::size_t kAll = 1'000'000, kSome = 7;
  Dependents dependents;
  std::size_t looks = 0;
  const auto progress = [&](JobId id) { return ++looks, id.value % 5 == 0 ? kBegan : kWaits; };
  const auto auto_cancel = [&](JobId id) { return ++looks, id.value % 7 != 0; };
  // Each job of a layer waits for all jobs of the layer before and one of its own.
  for (std::int64_t id = kEach; id < 6 * kEach; ++id) {
    Dependencies depends;
    for (std::int64_t on = id / kEach * kEach - kEach; on < id / kEach * kEach; ++on)
      depends.list.push_back({on % 3 == 0 ? kAfterAny : kAfterOk, {on}});
    depends.list.push_back({kAfterAny, {10'000 + id}});
    dependents.Set({id}, kAnn, depends, progress);
  }
  const std::vector<JobId> cancelled{{1}, {2}, {3}};
  AffectedSearch at_once(dependents, cancelled, progress, auto_cancel, kAll);
  EXPECT_FALSE(at_once.Continue(kAll));
  const auto all = at_once.Take();
  EXPECT_GT(all.size(), static_cast<std::size_t>(4 * kEach));
  AffectedSearch in_parts(dependents, cancelled, progress, auto_cancel, kAll);
  std::size_t parts = 0, most = 0;
  for (bool more = true; more; ++parts) {
    looks = 0;
    more = in_parts.Continue(kSome);
    most = std::max(most, looks);
  }
  EXPECT_LE(most, kSome);
  EXPECT_GT(parts, static_cast<std::size_t>(3 * kEach * kEach) / kSome);
  EXPECT_EQ(in_parts.Take(), all);
}

// After each step, the state equals the state that is computed from all progress.
TEST(QueueDependents, ComeToTheSameAsJudgedAnew) {
  using enum AwaitedJobState;
  std::mt19937 random(1);
  const auto any_of = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  constexpr std::int64_t kOthers = 6, kJobs = 5;
  std::map<JobId, AwaitedJobState> progress;
  const auto look = [&](JobId id) { return progress[id]; };
  std::map<JobId, State> states;
  Dependents dependents;
  for (int step = 0; step < 20'000; ++step) {
    const JobId job{100 + static_cast<std::int64_t>(random() % kJobs)};
    const JobId other{static_cast<std::int64_t>(random() % kOthers)};
    if (random() % 4 == 0) {
      Dependencies depends{.mode = any_of(DependencyMode::kAll, DependencyMode::kAny)};
      for (auto left = random() % 4; left > 0; --left)
        depends.list.push_back({any_of(kAfterOk, kAfterAny, kAfterNotOk, kAfter),
                                {static_cast<std::int64_t>(random() % kOthers)}});
      states[job] = dependents.Set(job, any_of(kAnn, kBob), depends, look);
      if (random() % 2 == 0)
        states[{job.value + 100}] = dependents.Set({job.value + 100}, kAnn, depends, look);
    } else if (random() % 8 == 0) {
      dependents.Erase(job);
      states.erase(job);
    } else {
      progress[other] = any_of(kWaits, kBegan, kOk, kNotOk, kCancelled, kUnknown);
      dependents.Tell(other, progress[other], [&](JobId id, State state) { states[id] = state; });
    }
    for (const auto& [id, state] : states) {
      const auto* const depends = dependents.DependenciesOf(id);
      ASSERT_EQ(state, depends ? Judge(*depends, look) : State::kMet)
          << "job " << id.value << " step " << step;
    }
  }
}

}  // namespace
}  // namespace gpuman::queue
