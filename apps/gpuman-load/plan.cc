#include "plan.h"

#include <random>
#include <utility>

namespace gpuman::load {
namespace {

using Kind = Operation::Kind;

std::uint64_t Bit(unsigned rank) { return std::uint64_t{1} << rank; }

// The ranks from `first` to `last`, both among them.
std::uint64_t Range(unsigned first, unsigned last) {
  std::uint64_t ranks = 0;
  for (unsigned rank = first; rank <= last; ++rank) ranks |= Bit(rank);
  return ranks;
}

class Step {
 public:
  Step(const PlanOptions& options, unsigned rank, std::uint64_t step)
      : options_(options), rank_(rank), last_(options.ranks - 1), step_(step) {}

  std::vector<Operation> Make() {
    switch (options_.pattern) {
      case Pattern::kDdp:
        options_.opposite ? DdpOpposite() : Ddp();
        break;
      case Pattern::kPipeline:
        Pipeline();
        break;
      case Pattern::kTensor:
        Tensor();
        break;
      case Pattern::kRandom:
        Random();
        break;
    }
    return std::move(operations_);
  }

 private:
  void Work() { operations_.push_back({.kind = Kind::kWork}); }
  void Raise(unsigned block) { operations_.push_back({.kind = Kind::kRaise, .block = block}); }
  void Compute(unsigned block) {
    Work();
    Raise(block);
  }
  void Reduce(unsigned lane, unsigned block, std::uint64_t members) {
    if ((members & Bit(rank_)) == 0) return;
    operations_.push_back({.kind = Kind::kReduce,
                           .lane = lane,
                           .block = block,
                           .ranks = members & ~Bit(rank_),
                           .sum = members});
  }
  void Send(unsigned block, unsigned to, bool passes_on) {
    operations_.push_back({.kind = Kind::kSend, .block = block, .ranks = Bit(to), .passes_on = passes_on});
  }
  void Take(unsigned block, unsigned from, std::uint64_t sum) {
    operations_.push_back({.kind = Kind::kTake, .block = block, .ranks = Bit(from), .sum = sum});
  }
  void Join() { operations_.push_back({.kind = Kind::kJoin}); }

  // Gradients are summed beside the work, a bucket as soon as it is there.
  void Ddp() {
    for (unsigned block = 0; block < options_.buckets; ++block) {
      Compute(block);
      Reduce(1, block, Range(0, last_));
    }
    Join();
  }

  void DdpOpposite() {
    for (unsigned block = 0; block < options_.buckets; block += 2) {
      const bool pair = block + 1 < options_.buckets;
      Compute(block);
      if (pair) Compute(block + 1);
      const bool odd = rank_ % 2 == 1;
      if (pair && odd) Reduce(2, block + 1, Range(0, last_));
      Reduce(1, block, Range(0, last_));
      if (pair && !odd) Reduce(2, block + 1, Range(0, last_));
    }
    Join();
  }

  // Each bucket goes through all ranks and back: activations, then gradients.
  void Pipeline() {
    const bool is_first = rank_ == 0, is_last = rank_ == last_;
    for (unsigned block = 0; block < options_.buckets; ++block) {
      Raise(block);
      if (!is_first) Take(block, rank_ - 1, Range(0, rank_));
      Work();
      if (!is_last) Send(block, rank_ + 1, !is_first);
    }
    for (unsigned block = 0; block < options_.buckets; ++block) {
      if (!is_last) Take(block, rank_ + 1, Range(rank_, last_));
      Work();
      if (!is_first) Send(block, rank_ - 1, !is_last);
    }
  }

  // Each layer waits for the sum of all, there and back.
  void Tensor() {
    for (unsigned block = 0; block < options_.buckets; ++block) {
      Compute(block);
      Reduce(0, block, Range(0, last_));
    }
    for (unsigned block = options_.buckets; block-- > 0;) {
      Work();
      Reduce(0, block, Range(0, last_));
    }
  }

  // Groups and lanes drawn anew for each collective, the same by all ranks; a sum of all ends the step.
  void Random() {
    std::seed_seq seeds{options_.seed, options_.seed >> 32, options_.repeats ? 0 : step_};
    std::mt19937_64 random(seeds);
    for (unsigned block = 0; block < options_.buckets; ++block) {
      Compute(block);
      const auto members = random() & Range(0, last_);
      const auto lane = static_cast<unsigned>(random() % kLanes);
      if ((members & (members - 1)) != 0) Reduce(lane, block, members);  // two members at least
    }
    Join();
    Reduce(0, 0, Range(0, last_));
  }

  const PlanOptions& options_;
  const unsigned rank_, last_;
  const std::uint64_t step_;
  std::vector<Operation> operations_;
};

}  // namespace

std::vector<Operation> StepOf(const PlanOptions& options, unsigned rank, std::uint64_t step) {
  return Step(options, rank, step).Make();
}

}  // namespace gpuman::load
