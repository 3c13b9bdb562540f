// What a rank does in a step. Pure: every rank can work out the part of every other.
#pragma once

#include <cstdint>
#include <vector>

#include "options.h"

namespace gpuman::load {

inline constexpr unsigned kMaxRanks = 64;
inline constexpr unsigned kLanes = 3;  // streams: that of the work, and one for each of two communicators

// Each rank has `buckets` blocks of its own, whose words grow by one in each step. A message is a block, or a
// sum of blocks. Sets of ranks are bits.
struct Operation {
  enum class Kind {
    kWork,    // the device works for its part of the step's time; lane 0
    kRaise,   // the block grows; lane 0
    kReduce,  // sends the block to each of `ranks`, and takes theirs
    kSend,    // sends the block, or with `passes_on` the last sum with it
    kTake,    // takes a message of each of `ranks`; with the own block they make a new sum
    kJoin,    // lane 0 goes on when the other lanes are done
  };
  Kind kind = Kind::kWork;
  unsigned lane = 0;
  unsigned block = 0;
  std::uint64_t ranks = 0;  // whom it exchanges messages with, never this rank itself
  std::uint64_t sum = 0;    // kReduce, kTake: whose blocks the sum consists of
  bool passes_on = false;   // kSend
};

struct PlanOptions {
  Pattern pattern = Pattern::kDdp;
  unsigned ranks = 2;
  unsigned buckets = 4;
  bool opposite = false;  // kDdp: two communicators, which odd ranks use in the opposite order
  bool repeats = false;   // each step is like the first
  std::uint64_t seed = 0;
};

// The operations of step `step`, from 1, in the order in which the rank's program calls them. An operation of
// lane 1 or 2 begins when the work before it is done. The last operation leaves nothing in other lanes.
std::vector<Operation> StepOf(const PlanOptions& options, unsigned rank, std::uint64_t step);

}  // namespace gpuman::load
