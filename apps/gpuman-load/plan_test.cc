// The plans of all ranks together, on a small machine that knows nothing but queues and messages.
#include "plan.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>

namespace gpuman::load {
namespace {

using Kind = Operation::Kind;

struct Queued {
  Operation operation;
  std::array<std::size_t, kLanes> after{};  // how many of each lane must be done first
  bool sent = false;                        // kReduce: the first half is done
};

// Runs the steps of all ranks, as far ahead as their programs may call, and checks each sum.
class World {
 public:
  World(const PlanOptions& options, std::uint64_t steps) : options_(options), ranks_(options.ranks) {
    for (unsigned rank = 0; rank < options.ranks; ++rank) {
      ranks_[rank].sums.resize(options.buckets);
      for (std::uint64_t step = 1; step <= steps; ++step)
        for (const auto& operation : StepOf(options, rank, step)) Call(ranks_[rank], operation);
    }
  }

  // False if the ranks wait for each other.
  bool Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (unsigned rank = 0; rank < options_.ranks; ++rank)
        for (unsigned lane = 0; lane < kLanes; ++lane) moved |= Advance(rank, lane);
    }
    for (const auto& rank : ranks_)
      for (const auto& queue : rank.queues)
        if (!queue.empty()) return false;
    return true;
  }

  unsigned sums = 0;

 private:
  struct Rank {
    std::array<std::deque<Queued>, kLanes> queues;
    std::array<std::size_t, kLanes> called{}, done{};
    std::vector<std::uint64_t> sums;  // the last one of each block
  };
  using Pair = std::tuple<unsigned, unsigned, unsigned>;  // lane, from, to

  static void Call(Rank& rank, const Operation& operation) {
    Queued queued{operation};
    if (operation.lane != 0) queued.after[0] = rank.called[0];
    if (operation.kind == Kind::kJoin) queued.after = rank.called;
    ++rank.called[operation.lane];
    rank.queues[operation.lane].push_back(queued);
  }

  bool Advance(unsigned rank, unsigned lane) {
    auto& me = ranks_[rank];
    if (me.queues[lane].empty()) return false;
    auto& queued = me.queues[lane].front();
    for (unsigned other = 0; other < kLanes; ++other)
      if (other != lane && me.done[other] < queued.after[other]) return false;
    if (!Do(rank, queued)) return false;
    me.queues[lane].pop_front();
    ++me.done[lane];
    return true;
  }

  bool Do(unsigned rank, Queued& queued) {
    const auto& operation = queued.operation;
    const bool sends = operation.kind == Kind::kReduce || operation.kind == Kind::kSend;
    const bool takes = operation.kind == Kind::kReduce || operation.kind == Kind::kTake;
    EXPECT_EQ(operation.ranks & (std::uint64_t{1} << rank), 0u);
    EXPECT_EQ(operation.ranks != 0, sends || takes);
    if (sends && !queued.sent) {
      if (!Send(rank, operation)) return false;
      queued.sent = true;
    }
    return !takes || Take(rank, operation);
  }

  template <typename Act>
  void ForEach(std::uint64_t ranks, Act act) {
    for (unsigned rank = 0; rank < kMaxRanks; ++rank)
      if ((ranks >> rank & 1) != 0) act(rank);
  }

  bool Send(unsigned rank, const Operation& operation) {
    bool room = true;
    ForEach(operation.ranks, [&](unsigned to) { room &= messages_[{operation.lane, rank, to}].size() < 2; });
    if (!room) return false;
    const auto content = operation.passes_on ? ranks_[rank].sums[operation.block] : std::uint64_t{1} << rank;
    ForEach(operation.ranks, [&](unsigned to) { messages_[{operation.lane, rank, to}].push_back(content); });
    return true;
  }

  bool Take(unsigned rank, const Operation& operation) {
    bool there = true;
    ForEach(operation.ranks, [&](unsigned from) {
      there &= !messages_[{operation.lane, from, rank}].empty();
    });
    if (!there) return false;
    auto sum = std::uint64_t{1} << rank;
    ForEach(operation.ranks, [&](unsigned from) {
      auto& waiting = messages_[{operation.lane, from, rank}];
      EXPECT_EQ(sum & waiting.front(), 0u) << "nobody counts twice";
      sum |= waiting.front();
      waiting.pop_front();
    });
    EXPECT_EQ(sum, operation.sum);
    ranks_[rank].sums[operation.block] = sum;
    ++sums;
    return true;
  }

  const PlanOptions& options_;
  std::vector<Rank> ranks_;
  std::map<Pair, std::deque<std::uint64_t>> messages_;
};

std::vector<PlanOptions> AllOptions() {
  std::vector<PlanOptions> all;
  for (const auto pattern : {Pattern::kDdp, Pattern::kPipeline, Pattern::kTensor, Pattern::kRandom})
    for (const unsigned ranks : {2u, 3u, 8u, 17u})
      for (const unsigned buckets : {1u, 2u, 5u})
        for (const bool opposite : {false, true})
          for (const std::uint64_t seed : {0u, 1u, 77u})
            all.push_back({pattern, ranks, buckets, opposite && pattern == Pattern::kDdp, false, seed});
  all.push_back({Pattern::kRandom, kMaxRanks, 3});
  return all;
}

TEST(Plan, NoRankWaitsForEverAndEachSumIsWhatThePlanSays) {
  for (const auto& options : AllOptions()) {
    World world(options, 3);
    EXPECT_TRUE(world.Run()) << ToString(options.pattern) << " " << options.ranks << " " << options.buckets;
    EXPECT_GE(world.sums, 3 * (options.ranks - 1));
  }
}

TEST(Plan, EachStepRaisesEachBlockOnceBeforeItIsSent) {
  for (const auto& options : AllOptions()) {
    for (unsigned rank = 0; rank < options.ranks; rank += 7) {
      std::vector<unsigned> raised(options.buckets);
      for (const auto& operation : StepOf(options, rank, 2)) {
        if (operation.kind == Kind::kRaise) ++raised[operation.block];
        if (operation.kind == Kind::kReduce || operation.kind == Kind::kSend) {
          EXPECT_EQ(raised[operation.block], 1u);
        }
      }
      EXPECT_EQ(raised, std::vector<unsigned>(options.buckets, 1));
    }
  }
}

TEST(Plan, OddRanksMeetInTheOppositeOrder) {
  std::array<std::vector<unsigned>, 2> lanes;
  for (unsigned rank : {0u, 1u})
    for (const auto& operation : StepOf({.buckets = 2, .opposite = true}, rank, 1))
      if (operation.kind == Kind::kReduce) lanes[rank].push_back(operation.lane);
  EXPECT_EQ(lanes[0], (std::vector<unsigned>{1, 2}));
  EXPECT_EQ(lanes[1], (std::vector<unsigned>{2, 1}));
}

TEST(Plan, RandomGroupsDifferByStepAndSeedUnlessTheyRepeat) {
  const auto groups = [](std::uint64_t seed, bool repeats, std::uint64_t step) {
    std::vector<std::uint64_t> all;
    for (unsigned rank = 0; rank < 8; ++rank)
      for (const auto& operation : StepOf({Pattern::kRandom, 8, 16, false, repeats, seed}, rank, step))
        if (operation.kind == Kind::kReduce) all.push_back(operation.sum);
    return all;
  };
  EXPECT_EQ(groups(1, false, 1), groups(1, false, 1));
  EXPECT_NE(groups(1, false, 1), groups(1, false, 2));
  EXPECT_NE(groups(1, false, 1), groups(2, false, 1));
  EXPECT_EQ(groups(1, true, 1), groups(1, true, 2));
}

}  // namespace
}  // namespace gpuman::load
