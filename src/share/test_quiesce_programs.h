// Programs of jobs, drawn at random, for quiesce_planner_property_test.cc. Each number is one program of the
// family.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "share/test_quiesce_world.h"

namespace gpuman::share {

// Random numbers that depend on the arguments of the constructor alone.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  Dice(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0) : state_(seed * 0x9e3779b97f4a7c15 + a) {
    state_ = Next() + b;
    Next();
  }
  std::uint64_t Next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  unsigned Below(unsigned most) { return static_cast<unsigned>(Next() % most); }
  bool OneIn(unsigned n) { return Below(n) == 0; }
  // Returns a time from `least` to `most`; short times are as likely as long ones.
  Span Time(Span least, Span most) {
    Span time = least;
    const auto doublings = std::bit_width(static_cast<std::uint64_t>(most / least));
    time *= std::int64_t{1} << Below(static_cast<unsigned>(doublings));
    return std::min(most, time + time * Below(16) / 16);
  }

 private:
  std::uint64_t state_;
};

// --- with a meeting of all units in each step

// Local kernels and meetings of random groups, in an order that is the same for all.
JobPlan RandomGroups(std::uint64_t number);
// Training with data in parallel: buckets on a second stream behind the gradients, and the first stream waits
// for all of them. The host of one unit needs `slower` times as long for its kernels, and now and then
// computes for up to `pause`.
JobPlan DataParallel(std::uint64_t number, unsigned slower = 1, Span pause = {});
// Two communicators on two streams; every second unit uses them in the opposite order.
JobPlan OppositeOrders(std::uint64_t number);
// Each launch is a graph with kernels and several meetings.
JobPlan Graphs(std::uint64_t number);
// A collective of each unit starts a thread of that process, whose copy the collective waits for.
JobPlan Proxies(std::uint64_t number);
// DataParallel in processes with two GPUs, a thread for each.
JobPlan SeveralGpus(std::uint64_t number);
// Some steps capture a stream, and the hosts wait for each other meanwhile.
JobPlan Captures(std::uint64_t number);

// --- without such a meeting

// Forward and backward along a chain; a unit waits for its neighbours alone.
JobPlan Pipeline(std::uint64_t number);
// Two groups in one job.
JobPlan TwoGroups(std::uint64_t number);
// One unit, with one kernel behind the other and one more at most in the queue.
JobPlan LongKernels(Span time);

}  // namespace gpuman::share
