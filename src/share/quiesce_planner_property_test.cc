// What must always hold of QuiescePlanner, in the model of test_quiesce_world.h, for programs drawn at
// random. The number of a case determines everything in it. GPUMAN_QUIESCE_CASES sets how many cases of each
// family are tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include "share/test_quiesce_programs.h"

namespace gpuman::share {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using Kind = QuiesceDecision::Kind;

struct TrialResults {
  unsigned cases = 0, rested = 0;
  std::vector<double> took;  // milliseconds
  std::vector<std::uint64_t> calls;
  unsigned leaps = 0, behind = 0;
};

using Family = std::function<JobPlan(std::uint64_t number)>;
enum class Meets { kAlways, kNever };

std::uint64_t Cases() {
  const char* const cases = std::getenv("GPUMAN_QUIESCE_CASES");
  return cases != nullptr ? std::strtoull(cases, nullptr, 10) : 200;
}

void Try(const Family& family, std::uint64_t number, Meets meets, Span limit, TrialResults& seen) {
  SCOPED_TRACE("case " + std::to_string(number));
  Dice dice(number, 99);
  QuiesceWorld world(family(number), number);
  world.RunFor(dice.Time(500us, 30ms));
  QuiesceHistory history;
  for (int attempt = 0; attempt < 4 && !testing::Test::HasFailure(); ++attempt) {
    const QuiesceWorld::Result result = world.Close({}, std::move(history), limit);
    ASSERT_EQ(world.problem(), "") << result.said;
    ++seen.cases;
    seen.leaps += result.figures.leaps;
    seen.behind += result.behind;
    if (result.kind == Kind::kRested) {
      ++seen.rested;
      seen.took.push_back(std::chrono::duration<double, std::milli>(result.figures.took).count());
      seen.calls.push_back(result.figures.calls);
    } else {
      EXPECT_EQ(result.kind, Kind::kFailed);
    }
    if (meets == Meets::kAlways) {
      ASSERT_EQ(result.kind, Kind::kRested)
          << "leaps " << result.figures.leaps << " calls " << result.figures.calls << '\n'
          << result.said;
      EXPECT_LE(result.figures.calls, result.needed + result.behind + result.beyond)
          << result.figures.leaps << " leaps\n"
          << result.said;
    }
    history = result.history;
    world.Open();
    EXPECT_TRUE(world.GoesOn(100s)) << "the job stands still";
    world.RunFor(dice.Time(500us, 10ms));
  }
}

TrialResults TryAll(const Family& family, Meets meets, Span limit = 5s) {
  TrialResults seen;
  for (std::uint64_t number = 1; number <= Cases() && !testing::Test::HasFailure(); ++number)
    Try(family, number, meets, limit, seen);
  std::sort(seen.took.begin(), seen.took.end());
  std::sort(seen.calls.begin(), seen.calls.end());
  const auto at = [](const auto& values, double part) {
    return values.empty() ? 0
                          : values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  std::cout << "  " << seen.rested << " of " << seen.cases << " rested, median " << at(seen.took, 0.5)
            << " ms, 99% " << at(seen.took, 0.99) << " ms, longest " << at(seen.took, 1)
            << " ms; calls: median " << at(seen.calls, 0.5) << ", most " << at(seen.calls, 1) << "; "
            << seen.leaps << " leaps, " << seen.behind << " behind\n";
  return seen;
}

TEST(QuiesceProperty, GroupsThatAllMeetInTheEndRest) { TryAll(RandomGroups, Meets::kAlways); }
TEST(QuiesceProperty, DataParallelTrainingRests) {
  TryAll([](std::uint64_t number) { return DataParallel(number); }, Meets::kAlways);
}
TEST(QuiesceProperty, ARankThatIsFarBehindCatchesUp) {
  TryAll([](std::uint64_t number) { return DataParallel(number, 30); }, Meets::kAlways);
}
TEST(QuiesceProperty, ARankWhoseHostComputesForSecondsIsWaitedFor) {
  TryAll([](std::uint64_t number) { return DataParallel(number, 1, 1500ms); }, Meets::kAlways);
}
TEST(QuiesceProperty, CollectivesInOppositeOrdersRest) { TryAll(OppositeOrders, Meets::kAlways); }
TEST(QuiesceProperty, GraphsWithSeveralMeetingsRest) { TryAll(Graphs, Meets::kAlways); }
TEST(QuiesceProperty, AProxyThreadsCopyIsLetThrough) { TryAll(Proxies, Meets::kAlways); }
TEST(QuiesceProperty, ProcessesWithSeveralGpusRest) { TryAll(SeveralGpus, Meets::kAlways); }
TEST(QuiesceProperty, StreamsAreCapturedAsAWhole) { TryAll(Captures, Meets::kAlways); }

// At least 99 of 100 cases have to rest; of fewer cases, all but one.
void ExpectMostRested(const TrialResults& seen) {
  EXPECT_LE((seen.cases - seen.rested) * 100, seen.cases + 99);
}

TEST(QuiesceProperty, PipelinesRestAsARule) { ExpectMostRested(TryAll(Pipeline, Meets::kNever)); }
TEST(QuiesceProperty, GroupsThatNeverMeetRestAsARule) { ExpectMostRested(TryAll(TwoGroups, Meets::kNever)); }

TEST(QuiesceProperty, AKernelOfFiveSecondsIsWaitedFor) {
  QuiesceWorld world(LongKernels(5s), 1);
  world.RunFor(100ms);
  // The next call has begun already, and waits in the driver for room in the queue: there is a second kernel.
  QuiesceWorld::Result result = world.Close({}, {}, 3s);
  EXPECT_EQ(result.kind, Kind::kFailed);
  EXPECT_LE(result.behind, 6u);
  world.Open();
  result = world.Close({}, std::move(result.history), 24s);
  EXPECT_EQ(result.kind, Kind::kRested);
  EXPECT_EQ(result.behind, 0u) << "each call would have taken five seconds more";
  EXPECT_EQ(world.problem(), "");
}

TEST(QuiesceProperty, TheSameEventsMakeTheSameDecisions) {
  for (std::uint64_t number = 1; number <= 20; ++number) {
    const auto said = [&] {
      QuiesceWorld world(Pipeline(number), number);
      world.RunFor(10ms);
      return world.Close({}, {}, 1s).said;
    };
    EXPECT_EQ(said(), said());
  }
}

// --- views that no program makes

// What the planner may decide after this view; `open`: processes with a grant that has not ended.
void Check(const QuiesceView& view, const QuiesceDecision& decision, const QuiesceDecision& last, bool is_due,
           const std::map<base::ProcessId, ProcessGpuId>& open) {
  const bool works =
      std::any_of(view.units.begin(), view.units.end(), [](const auto& unit) { return unit.works; });
  if (decision.kind == Kind::kRested) {
    EXPECT_TRUE(view.all_shut && !works && !view.broken && open.empty());
    EXPECT_NE(last.kind, Kind::kFailed);
  }
  const bool over = decision.kind == Kind::kFailed || decision.kind == Kind::kRested;
  EXPECT_TRUE(over || (last.kind != Kind::kFailed && !is_due && !view.broken));
  if (decision.kind == Kind::kGrant) {
    EXPECT_FALSE(last.kind == Kind::kRested || last.kind == Kind::kFailed);
    EXPECT_FALSE(decision.grants.empty());
  }
  std::set<base::ProcessId> granted;
  for (const GateCallGrant& grant : decision.grants) {
    EXPECT_TRUE(granted.insert(grant.unit.process).second) << "two grants to a process";
    const auto unit = std::find_if(view.units.begin(), view.units.end(),
                                   [&](const ProcessGpuState& each) { return each.id == grant.unit; });
    ASSERT_NE(unit, view.units.end());
    EXPECT_TRUE(unit->takes_grants && unit->waits);
    EXPECT_TRUE(!unit->works || grant.behind);
    EXPECT_TRUE(!grant.behind || grant.calls == 1);
    EXPECT_TRUE(grant.calls >= 1 && grant.calls <= 1023 && grant.stride <= 7);
  }
}

TEST(QuiesceProperty, NoViewLeadsToAnUnsafeDecision) {
  std::size_t rested = 0, failed = 0, granted = 0;
  for (std::uint64_t number = 1; number <= 2000 && !HasFailure(); ++number) {
    SCOPED_TRACE("case " + std::to_string(number));
    Dice dice(number);
    base::MonoTime now{1h};
    const base::MonoTime deadline = now + dice.Time(10ms, 2s);
    QuiescePlanner planner({}, {}, now, deadline);
    std::map<base::ProcessId, ProcessGpuId> open;
    QuiesceDecision last;
    const unsigned processes = 1 + dice.Below(5), lively = 1 + dice.Below(60);
    QuiesceView view;
    for (int i = 0; i < 60; ++i) {
      view.ended.clear();
      if (i == 0 || dice.OneIn(3)) {
        view.all_shut = !dice.OneIn(4);
        view.broken = dice.OneIn(100);
        view.units.clear();
        for (pid_t process = 1; process <= static_cast<pid_t>(processes); ++process) {
          for (unsigned gpu = 0; gpu < 2; ++gpu)
            if (!dice.OneIn(4))
              view.units.push_back({{{process, 1}, gpu}, dice.OneIn(lively), dice.OneIn(2), !dice.OneIn(4)});
        }
      }
      for (auto grant = open.begin(); grant != open.end();) {
        const bool gone = std::none_of(view.units.begin(), view.units.end(),
                                       [&](const ProcessGpuState& unit) { return unit.id == grant->second; });
        const bool ends = !gone && dice.OneIn(2);
        if (ends) view.ended.push_back({grant->second, dice.Below(70)});
        grant = gone || ends ? open.erase(grant) : std::next(grant);
      }
      const QuiesceDecision decision = planner.Decide(view, now);
      Check(view, decision, last, now >= deadline, open);
      for (const GateCallGrant& grant : decision.grants) open[grant.unit.process] = grant.unit;
      EXPECT_TRUE(decision.kind != Kind::kWait || decision.look_at > now);
      rested += decision.kind == Kind::kRested && last.kind != Kind::kRested;
      failed += decision.kind == Kind::kFailed && last.kind != Kind::kFailed;
      granted += decision.grants.size();
      last = decision;
      now += dice.Time(100us, 60ms);
    }
  }
  // The random views have led to each kind of decision.
  EXPECT_GT(rested, 100u);
  EXPECT_GT(failed, 100u);
  EXPECT_GT(granted, 500u);
}

}  // namespace
}  // namespace gpuman::share
