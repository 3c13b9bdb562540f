#include "trace/replay.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace gpuman::trace {
namespace {

// The samples of a moment are believed where they add up to what was held, but for this part of it.
constexpr double kTrusted = 0.2;
// Moments of so much of the peak are like the peak.
constexpr double kNear = 0.9;

struct Step {
  std::uint64_t at;
  std::uint32_t process, event;
};

std::vector<Step> InOrder(const std::vector<ProcessTrace>& processes) {
  std::vector<Step> steps;
  for (std::size_t process = 0; process < processes.size(); ++process) {
    const auto& events = processes[process].events;
    for (std::size_t event = 0; event < events.size(); ++event)
      steps.push_back(
          {events[event].at, static_cast<std::uint32_t>(process), static_cast<std::uint32_t>(event)});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.at < b.at; });
  return steps;
}

void Add(Amount& to, const Amount& what, double times) {
  to.bytes += times * what.bytes;
  to.allocations += times * what.allocations;
}

Amount AmountOf(const TraceEvent& event) {
  return {event.weight * static_cast<double>(event.bytes), event.weight};
}

// What samples say that a stack holds now, and the sum of that over the moments near the peak.
struct Part {
  Amount now, sum;
  std::uint64_t counted = 0;  // moments that are in `sum`
};

struct Device {
  std::map<std::size_t, double> held;  // exact, by process
  std::map<StackRef, Part> parts;
  std::uint64_t near = 0;  // moments near the peak

  double Held() const {
    double all = 0;
    for (const auto& [process, bytes] : held) all += bytes;
    return all;
  }
  void Change(const StackRef& stack, const Amount& amount, double times) {
    Part& part = parts[stack];
    Count(part);
    Add(part.now, amount, times);
  }
  void Count(Part& part) const {
    Add(part.sum, part.now, static_cast<double>(near - part.counted));
    part.counted = near;
  }
};

std::map<StackRef, Amount> PartsOf(const Device& device, bool average) {
  std::map<StackRef, Amount> list;
  for (const auto& [stack, part] : device.parts) {
    Part counted = part;
    device.Count(counted);
    const Amount& amount = average ? counted.sum : counted.now;
    if (amount.bytes > 0.5) list[stack] = amount;
  }
  return list;
}

double Sum(const std::map<StackRef, Amount>& parts) {
  double sum = 0;
  for (const auto& [stack, amount] : parts) sum += amount.bytes;
  return sum;
}

// Sets the parts, so that they are what was held.
void SetParts(Moment& moment, std::map<StackRef, Amount> parts) {
  const double sum = Sum(parts);
  moment.held.clear();
  if (sum <= 0 || moment.bytes <= 0) return;
  for (auto& [stack, amount] : parts) {
    amount.bytes *= moment.bytes / sum;
    amount.allocations *= moment.bytes / sum;
  }
  moment.held = std::move(parts);
}

bool AddsUp(const Moment& moment, const std::map<StackRef, Amount>& parts) {
  return std::abs(Sum(parts) - moment.bytes) <= kTrusted * moment.bytes;
}

// Goes through the events of all processes.
class Walk {
 public:
  explicit Walk(const std::vector<ProcessTrace>& processes)
      : processes_(processes), live_(processes.size()) {}

  const TraceEvent& EventOf(const Step& step) const { return processes_[step.process].events[step.event]; }
  const std::string& GpuOf(const Step& step) const {
    return processes_[step.process].gpus[EventOf(step).gpu];
  }
  Device& At(const std::string& gpu) { return devices_[gpu]; }
  std::map<std::string, Device>& devices() { return devices_; }

  // What all processes held there before the step, which is an allocation.
  double HeldBefore(const Step& step) {
    const TraceEvent& event = EventOf(step);
    Device& device = At(GpuOf(step));
    return device.Held() - device.held[step.process] + static_cast<double>(event.held - event.bytes);
  }

  void Do(const Step& step) {
    const TraceEvent& event = EventOf(step);
    switch (event.kind) {
      case TraceEvent::Kind::kGone:
        return FreeAll(event.key);
      case TraceEvent::Kind::kFreed:
        Free(step.process, event.key, static_cast<double>(event.held));
        return;
      case TraceEvent::Kind::kAllocated: {
        Free(step.process, event.key, {});  // its end was not seen
        live_[step.process][event.key] = step.event;
        Device& device = At(GpuOf(step));
        device.Change({step.process, event.stack}, AmountOf(event), 1);
        device.held[step.process] = static_cast<double>(event.held);
        return;
      }
      case TraceEvent::Kind::kRefused:
        At(GpuOf(step)).held[step.process] = static_cast<double>(event.held);
        return;
    }
  }

 private:
  void Free(std::size_t process, std::uint64_t key, std::optional<double> held) {
    const auto found = live_[process].find(key);
    if (found == live_[process].end()) return;
    const TraceEvent& event = processes_[process].events[found->second];
    Device& device = At(processes_[process].gpus[event.gpu]);
    device.Change({process, event.stack}, AmountOf(event), -1);
    if (held) device.held[process] = *held;
    live_[process].erase(found);
  }

  void FreeAll(std::uint64_t number) {
    for (std::size_t process = 0; process < processes_.size(); ++process) {
      if (processes_[process].number != number) continue;
      while (!live_[process].empty()) Free(process, live_[process].begin()->first, 0);
      for (auto& [gpu, device] : devices_) device.held.erase(process);
    }
  }

  const std::vector<ProcessTrace>& processes_;
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> live_;  // events, by key
  std::map<std::string, Device> devices_;                               // by UUID
};

struct Marks {
  double most = -1;
  std::size_t peak = 0;  // steps
  std::optional<std::size_t> refused;
};

bool IsMoment(const TraceEvent& event) {
  return event.kind == TraceEvent::Kind::kAllocated || event.kind == TraceEvent::Kind::kRefused;
}

std::map<std::string, Marks> FindMarks(Walk walk, const std::vector<Step>& steps) {
  std::map<std::string, Marks> marks;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    walk.Do(steps[i]);
    if (!IsMoment(walk.EventOf(steps[i]))) continue;
    const std::string& gpu = walk.GpuOf(steps[i]);
    Marks& its = marks[gpu];
    if (walk.EventOf(steps[i]).kind == TraceEvent::Kind::kRefused) its.refused = i;
    const double held = walk.At(gpu).Held();
    if (held <= its.most) continue;
    its.most = held;
    its.peak = i;
  }
  return marks;
}

}  // namespace

std::vector<GpuTraceSummary> Replay(const std::vector<ProcessTrace>& processes) {
  const std::vector<Step> steps = InOrder(processes);
  const auto marks = FindMarks(Walk(processes), steps);
  std::map<std::string, GpuTraceSummary> told;
  std::map<std::string, std::map<StackRef, Amount>> at_peak, at_refusal;
  Walk walk(processes);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TraceEvent& event = walk.EventOf(steps[i]);
    // Before the step: the sample that makes the moment would count too much in it.
    if (event.kind == TraceEvent::Kind::kAllocated &&
        walk.HeldBefore(steps[i]) >= kNear * marks.at(walk.GpuOf(steps[i])).most)
      ++walk.At(walk.GpuOf(steps[i])).near;
    walk.Do(steps[i]);
    if (!IsMoment(event)) continue;
    const std::string& gpu = walk.GpuOf(steps[i]);
    const Marks& its = marks.at(gpu);
    const auto now = [&] { return Moment{steps[i].process, steps[i].at, walk.At(gpu).Held(), {}, false}; };
    if (its.peak == i) {
      told[gpu].gpu = gpu;
      told[gpu].peak = now();
      at_peak[gpu] = PartsOf(walk.At(gpu), false);
    }
    if (its.refused == i) {
      told[gpu].refusal = RefusedAllocation{{steps[i].process, event.stack}, event.bytes, now()};
      at_refusal[gpu] = PartsOf(walk.At(gpu), false);
    }
  }
  std::vector<GpuTraceSummary> list;
  for (auto& [gpu, one] : told) {
    const auto average = PartsOf(walk.At(gpu), true);
    const auto peak = one.peak.bytes;
    const auto set = [&average, peak](Moment& moment, const std::map<StackRef, Amount>& parts) {
      moment.averaged = !AddsUp(moment, parts) && moment.bytes >= kNear * peak && !average.empty();
      SetParts(moment, moment.averaged ? average : parts);
    };
    set(one.peak, at_peak[gpu]);
    if (one.refusal) set(one.refusal->then, at_refusal[gpu]);
    list.push_back(std::move(one));
  }
  std::stable_sort(list.begin(), list.end(), [](const GpuTraceSummary& a, const GpuTraceSummary& b) {
    return a.peak.bytes > b.peak.bytes;
  });
  return list;
}

}  // namespace gpuman::trace
