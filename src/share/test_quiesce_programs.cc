#include "share/test_quiesce_programs.h"

#include <utility>

namespace gpuman::share {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using Ops = std::vector<Op>;

Op Host(Span time) { return {Op::Kind::kHost, time}; }
Op Launch(unsigned stream, std::vector<Work> work) {
  Op op{Op::Kind::kLaunch};
  op.stream = stream;
  op.work = std::move(work);
  return op;
}
Op Synchronize() { return {Op::Kind::kSynchronize}; }
Op HostPost(std::uint64_t key) { return {Op::Kind::kPost, {}, key}; }
Op HostAwait(std::uint64_t key, unsigned parts) { return {Op::Kind::kAwait, {}, key, parts}; }
Work Kernel(Span time) { return {Work::Kind::kKernel, time}; }
Work Meeting(std::uint64_t key, unsigned parts, Span time) {
  return {Work::Kind::kMeeting, time, key, parts};
}
Work Post(std::uint64_t key) { return {Work::Kind::kPost, {}, key}; }
Work Await(std::uint64_t key, unsigned parts = 1) { return {Work::Kind::kAwait, {}, key, parts}; }
std::uint64_t KeyOf(std::uint64_t step, std::uint64_t what) { return step << 20 | what; }

// The common part of all families.
struct Job {
  std::uint64_t seed = 0;
  unsigned units = 2;
  Span kernel{}, host{};      // the longest
  unsigned synchronizes = 0;  // one step in so many ends with it; 0: none
  int slow = -1;              // a unit whose host is slow

  Job(std::uint64_t number, unsigned most_units) : seed(number * 1000003) {
    Dice dice(seed, 1);
    units = 2 + dice.Below(dice.OneIn(4) ? most_units - 1 : std::min(most_units - 1, 5u));
    kernel = dice.Time(50us, 10ms);
    host = dice.Time(10us, 200us);
    synchronizes = dice.Below(4);
    if (dice.OneIn(2)) slow = static_cast<int>(dice.Below(units));
  }
  Dice At(std::uint64_t step, std::uint64_t what = 0) const { return Dice(seed, step + 2, what); }
  Span HostTime(Dice& dice, unsigned unit) const {
    return dice.Time(5us, host) * (static_cast<int>(unit) == slow ? 8 : 1);
  }
  void End(Ops& ops, std::uint64_t step) const {
    if (synchronizes != 0 && step % synchronizes == 0) ops.push_back(Synchronize());
  }
  // One thread for each unit; each unit is a process.
  JobPlan Plan(unsigned streams, std::size_t ahead,
               const std::function<Ops(unsigned unit, std::uint64_t step)>& ops) const {
    JobPlan plan;
    for (unsigned unit = 0; unit < units; ++unit) {
      plan.units.push_back({unit, streams, ahead});
      plan.threads.push_back({unit, [ops, unit](std::uint64_t step) { return ops(unit, step); }});
    }
    return plan;
  }
  std::size_t Ahead() const { return std::size_t{8} << Dice(seed, 0).Below(8); }
};

}  // namespace

JobPlan RandomGroups(std::uint64_t number) {
  const Job job(number, 16);
  return job.Plan(2, job.Ahead(), [job](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice common = job.At(step);
    const unsigned items = 2 + common.Below(16);
    for (unsigned i = 0; i < items; ++i) {
      const bool meets = common.OneIn(2);
      const unsigned stream = common.Below(2);
      std::uint64_t group = common.Next();
      group |= std::uint64_t{1} << common.Below(job.units);
      const auto parts = static_cast<unsigned>(std::popcount(group & ((std::uint64_t{1} << job.units) - 1)));
      const Span time = common.Time(10us, 500us);
      Dice own = job.At(step, 100 + i * 64 + unit);
      ops.push_back(Host(job.HostTime(own, unit)));
      const unsigned local = own.Below(2);
      if (!meets) ops.push_back(Launch(local, {Kernel(own.Time(20us, job.kernel))}));
      if (meets && (group >> unit & 1) != 0)
        ops.push_back(Launch(stream, {Meeting(KeyOf(step, i), parts, time)}));
    }
    ops.push_back(Launch(0, {Meeting(KeyOf(step, 999), job.units, 50us)}));
    job.End(ops, step);
    return ops;
  });
}

JobPlan DataParallel(std::uint64_t number, unsigned slower, Span pause) {
  Job job(number, 16);
  Dice dice(job.seed, 7);
  const unsigned buckets = 1 + dice.Below(8), kernels = 1 + dice.Below(20);
  job.slow = static_cast<int>(dice.Below(job.units));
  return job.Plan(2, slower > 1 ? 1024 : job.Ahead(), [=](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice own = job.At(step, 100 + unit);
    const bool slow = static_cast<int>(unit) == job.slow;
    if (slow && pause != Span{} && step % 32 == 2) ops.push_back(Host(own.Time(pause / 8, pause)));
    for (unsigned bucket = 0; bucket < buckets; ++bucket) {
      for (unsigned i = 0; i < kernels; ++i) {
        ops.push_back(Host(own.Time(5us, job.host) * (slow ? slower : 1)));
        ops.push_back(Launch(0, {Kernel(own.Time(20us, job.kernel))}));
      }
      const std::uint64_t ready = KeyOf(step, 1000 + bucket * 64 + unit);
      ops.push_back(Launch(0, {Post(ready)}));
      ops.push_back(Launch(1, {Await(ready), Meeting(KeyOf(step, bucket), job.units, 100us)}));
    }
    const std::uint64_t reduced = KeyOf(step, 5000 + unit);
    ops.push_back(Launch(1, {Post(reduced)}));
    ops.push_back(Launch(0, {Await(reduced), Kernel(own.Time(20us, job.kernel))}));
    job.End(ops, step);
    return ops;
  });
}

JobPlan OppositeOrders(std::uint64_t number) {
  const Job job(number, 8);
  Dice dice(job.seed, 7);
  const unsigned pairs = 1 + dice.Below(3);
  return job.Plan(2, job.Ahead(), [=](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice own = job.At(step, 100 + unit);
    for (unsigned pair = 0; pair < pairs; ++pair) {
      for (unsigned turn = 0; turn < 2; ++turn) {
        const unsigned which = (turn + unit) % 2;
        ops.push_back(Host(job.HostTime(own, unit)));
        ops.push_back(Launch(which, {Kernel(own.Time(20us, job.kernel)),
                                     Meeting(KeyOf(step, pair * 2 + which), job.units, 50us)}));
      }
    }
    ops.push_back(Synchronize());
    return ops;
  });
}

JobPlan Graphs(std::uint64_t number) {
  const Job job(number, 12);
  return job.Plan(1, job.Ahead(), [job](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice common = job.At(step);
    const unsigned launches = 1 + common.Below(4);
    for (unsigned i = 0; i < launches; ++i) {
      Dice own = job.At(step, 100 + i * 64 + unit);
      std::vector<Work> work;
      const unsigned meetings = 1 + common.Below(4);
      for (unsigned m = 0; m < meetings; ++m) {
        work.push_back(Kernel(own.Time(20us, job.kernel)));
        work.push_back(Meeting(KeyOf(step, i * 8 + m), job.units, 50us));
      }
      ops.push_back(Host(job.HostTime(own, unit)));
      ops.push_back(Launch(0, std::move(work)));
    }
    job.End(ops, step);
    return ops;
  });
}

JobPlan Proxies(std::uint64_t number) {
  const Job job(number, 6);
  JobPlan plan = job.Plan(2, job.Ahead(), [job](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice own = job.At(step, 100 + unit);
    const unsigned kernels = 1 + job.At(step).Below(6);
    for (unsigned i = 0; i < kernels; ++i) {
      ops.push_back(Host(job.HostTime(own, unit)));
      ops.push_back(Launch(0, {Kernel(own.Time(20us, job.kernel))}));
    }
    ops.push_back(Launch(0, {Post(KeyOf(step, 100 + unit)), Await(KeyOf(step, 200 + unit)),
                             Meeting(KeyOf(step, 1), job.units, 50us)}));
    ops.push_back(Synchronize());
    return ops;
  });
  for (unsigned unit = 0; unit < job.units; ++unit)
    plan.threads.push_back({unit, [unit](std::uint64_t step) {
                              return Ops{HostAwait(KeyOf(step, 100 + unit), 1),
                                         Launch(1, {Kernel(20us), Post(KeyOf(step, 200 + unit))})};
                            }});
  return plan;
}

JobPlan SeveralGpus(std::uint64_t number) {
  const Job job(number, 8);
  JobPlan plan = DataParallel(number, 1, {});
  for (unsigned unit = 0; unit < plan.units.size(); ++unit) plan.units[unit].process = unit / 2;
  return plan;
}

JobPlan Captures(std::uint64_t number) {
  const Job job(number, 8);
  return job.Plan(1, job.Ahead(), [job](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice own = job.At(step, 100 + unit);
    const bool captures = job.At(step).OneIn(3);
    if (captures) {
      ops.push_back(Op{Op::Kind::kBeginCapture});
      for (unsigned i = 0; i < 5; ++i) {
        ops.push_back(Host(job.HostTime(own, unit)));
        ops.push_back(Op{Op::Kind::kCaptured});
      }
      ops.push_back(HostPost(KeyOf(step, 2)));
      ops.push_back(HostAwait(KeyOf(step, 2), job.units));
      ops.push_back(Op{Op::Kind::kEndCapture});
    }
    for (unsigned i = 0; i < 4; ++i) {
      ops.push_back(Host(job.HostTime(own, unit)));
      ops.push_back(Launch(0, {Kernel(own.Time(20us, job.kernel))}));
    }
    ops.push_back(Launch(0, {Meeting(KeyOf(step, 1), job.units, 50us)}));
    job.End(ops, step);
    return ops;
  });
}

JobPlan Pipeline(std::uint64_t number) {
  const Job job(number, 8);
  Dice dice(job.seed, 7);
  const unsigned batches = 1 + dice.Below(8);
  return job.Plan(2, job.Ahead(), [=](unsigned unit, std::uint64_t step) {
    Ops ops;
    Dice own = job.At(step, 100 + unit);
    for (unsigned back = 0; back < 2; ++back) {
      for (unsigned batch = 0; batch < batches; ++batch) {
        const auto meet = [&](unsigned other) {
          const unsigned edge = std::min(unit, other);
          ops.push_back(Launch(0, {Meeting(KeyOf(step, (back * 64 + batch) * 64 + edge), 2, 20us)}));
        };
        const bool first = unit == 0, last = unit + 1 == job.units;
        if (back == 0 ? !first : !last) meet(back == 0 ? unit - 1 : unit + 1);
        for (unsigned i = 0; i < 3; ++i) {
          ops.push_back(Host(job.HostTime(own, unit)));
          ops.push_back(Launch(0, {Kernel(own.Time(20us, job.kernel))}));
        }
        if (back == 0 ? !last : !first) meet(back == 0 ? unit + 1 : unit - 1);
      }
    }
    job.End(ops, step);
    return ops;
  });
}

JobPlan TwoGroups(std::uint64_t number) {
  Job job(number, 6);
  const unsigned first = std::max(2u, job.units), second = 2 + Dice(job.seed, 7).Below(5);
  job.units = first + second;
  return job.Plan(1, job.Ahead(), [=](unsigned unit, std::uint64_t step) {
    Ops ops;
    const bool in_first = unit < first;
    Dice own = job.At(step, 100 + unit);
    const unsigned kernels = 1 + job.At(step, in_first).Below(10);
    for (unsigned i = 0; i < kernels; ++i) {
      ops.push_back(Host(job.HostTime(own, unit)));
      ops.push_back(Launch(0, {Kernel(own.Time(20us, job.kernel))}));
    }
    ops.push_back(Launch(0, {Meeting(KeyOf(step, in_first ? 1 : 2), in_first ? first : second, 50us)}));
    job.End(ops, step);
    return ops;
  });
}

JobPlan LongKernels(Span time) {
  JobPlan plan;
  plan.units.push_back({0, 1, 1});
  plan.threads.push_back({0, [time](std::uint64_t) { return Ops{Host(20us), Launch(0, {Kernel(time)})}; }});
  return plan;
}

}  // namespace gpuman::share
