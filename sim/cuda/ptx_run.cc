#include "sim/cuda/ptx_run.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/cuda/ptx_warp.h"

namespace gpuman::sim::cuda::ptx {
namespace {

std::uint64_t NowNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void SetActive(Warp& warp, std::uint32_t active) {
  if (warp.active == active) return;
  warp.active = active;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    warp.mask.lane[lane] = (active >> lane & 1) != 0 ? ~std::uint64_t{0} : 0;
  }
}

std::uint32_t GuardBits(Warp& warp, const Instruction& instruction) {
  const std::uint64_t* predicate = warp.At(instruction.guard);
  std::uint64_t all = predicate[0], any = predicate[0];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    all &= predicate[lane];
    any |= predicate[lane];
  }
  std::uint32_t bits = static_cast<std::uint32_t>(all);
  if (all != any) {  // the threads differ, which is rare
    bits = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      bits |= static_cast<std::uint32_t>(predicate[lane] & 1) << lane;
    }
  }
  return instruction.guard_negated ? ~bits : bits;
}

// The positions of the threads of a warp. Threads that took different branches wait until the group at the
// lowest position reaches them; so the two sides of a branch, and threads that left a loop, join again.
class WarpPositions {
 public:
  explicit WarpPositions(std::uint32_t live) : group_(live) {}

  std::uint32_t pc = 0;
  std::uint32_t group() const { return group_; }

  // Splits `leaving` off the group; they continue at `at`.
  void Park(std::uint32_t leaving, std::uint32_t at) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((leaving >> lane & 1) != 0) at_[lane] = at;
    }
    waiting_ |= leaving;
    group_ &= ~leaving;
    lowest_ = std::min(lowest_, at);
  }
  void Retire(std::uint32_t done) { group_ &= ~done; }

  // After pc changed: chooses the threads at the lowest position. False if all threads have ended.
  bool Next() {
    if (group_ == 0) {
      if (waiting_ == 0) return false;
      pc = lowest_;
    } else if (pc < lowest_) {
      return true;
    } else if (pc > lowest_) {
      const std::uint32_t lowest = lowest_;
      Park(group_, pc);
      pc = lowest;
    }
    std::uint32_t lowest = ~std::uint32_t{0};
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((waiting_ >> lane & 1) == 0) continue;
      if (at_[lane] == pc) {
        group_ |= std::uint32_t{1} << lane;
      } else {
        lowest = std::min(lowest, at_[lane]);
      }
    }
    waiting_ &= ~group_;
    lowest_ = lowest;
    return true;
  }

 private:
  std::uint32_t group_;
  std::uint32_t waiting_ = 0;
  std::uint32_t lowest_ = ~std::uint32_t{0};
  std::array<std::uint32_t, kLanes> at_{};
};

// A warp that has polled so often in vain pauses in each round of its loop. One that reads other words in
// between, or as many as a copy reads, pauses in a few rounds only.
constexpr unsigned kFruitlessPolls = 16, kRoundsBetweenPauses = 4096;

void PauseIfItWaits(Warp& warp) {
  if (!warp.fresh) return;
  if (warp.polls < kFruitlessPolls && ++warp.backward_branches % kRoundsBetweenPauses != 0) return;
  warp.Pause(0);
}

void RunWarp(Warp& warp, const Kernel& kernel, std::uint32_t live) {
  WarpPositions positions(live);
  const Instruction* const code = kernel.code.data();
  do {
    const Instruction& instruction = code[positions.pc];
    std::uint32_t executing = positions.group();
    if (instruction.guard != kNoGuard) executing &= GuardBits(warp, instruction);
    switch (instruction.flow) {
      case Flow::kNext:
        ++positions.pc;
        if (executing == 0) break;
        SetActive(warp, executing);
        instruction.execute(warp, instruction);
        if (warp.fault != Fault::kNone || warp.given_up) return;
        break;
      case Flow::kBranch:
        if (executing != 0 && instruction.target <= positions.pc) PauseIfItWaits(warp);
        if (warp.given_up) return;
        if (executing == positions.group()) {
          positions.pc = instruction.target;
        } else {
          ++positions.pc;
          if (executing != 0) positions.Park(executing, instruction.target);
        }
        break;
      case Flow::kReturn:
        ++positions.pc;
        positions.Retire(executing);
        break;
    }
  } while (positions.Next());
}

// The value of a register that differs between the threads of a warp; nullopt: it is the same for all of
// them.
std::optional<std::uint64_t> ValueOfThread(Special special, unsigned thread, Dimensions block) {
  switch (special) {
    case Special::kTidX:
      return thread % block.x;
    case Special::kTidY:
      return thread / block.x % block.y;
    case Special::kTidZ:
      return thread / block.x / block.y;
    case Special::kLaneId:
      return thread % kLanes;
    default:
      return std::nullopt;
  }
}

std::uint64_t ValueOfWarp(Special special, unsigned warp, unsigned warps, Dimensions grid, Dimensions block,
                          Dimensions place) {
  switch (special) {
    case Special::kNtidX:
      return block.x;
    case Special::kNtidY:
      return block.y;
    case Special::kNtidZ:
      return block.z;
    case Special::kCtaidX:
      return place.x;
    case Special::kCtaidY:
      return place.y;
    case Special::kCtaidZ:
      return place.z;
    case Special::kNctaidX:
      return grid.x;
    case Special::kNctaidY:
      return grid.y;
    case Special::kNctaidZ:
      return grid.z;
    case Special::kWarpId:
      return warp;
    case Special::kNwarpId:
      return warps;
    case Special::kNsmId:
      return 1;
    default:
      return 0;
  }
}

void SetSpecials(std::vector<Column>& registers, const Kernel& kernel, unsigned warp, unsigned warps,
                 Dimensions grid, Dimensions block, Dimensions place) {
  for (const SpecialUse& use : kernel.specials) {
    auto& column = registers[use.register_index].lane;
    const unsigned first = warp * kLanes;
    if (use.special == Special::kTidX && first % block.x + kLanes <= block.x) {
      std::iota(column.begin(), column.end(), first % block.x);
    } else if (ValueOfThread(use.special, first, block)) {
      for (unsigned lane = 0; lane < kLanes; ++lane)
        column[lane] = *ValueOfThread(use.special, first + lane, block);
    } else {
      column.fill(ValueOfWarp(use.special, warp, warps, grid, block, place));
    }
  }
}

}  // namespace

bool Warp::CheckSlowly(std::uint64_t address, unsigned size, bool write) {
  Range range;
  if (!memory->Find(address, range) || range.end - address < size || (write && !range.writable)) {
    fault = Fault::kIllegalAddress;
    fault_address = address;
    return false;
  }
  recent[next_recent++ % recent.size()] = range;
  return Check(address, size, write);
}

RunResult Run(const Kernel& kernel, std::span<const std::uint64_t> globals, Dimensions grid, Dimensions block,
              std::span<const std::uint8_t> parameters, Memory& memory) {
  std::vector<Column> registers(kernel.registers);
  for (const Constant& constant : kernel.constants) {
    std::uint64_t value = constant.value;
    if (constant.global >= 0) value += globals[static_cast<std::size_t>(constant.global)];
    registers[constant.register_index].lane.fill(value);
  }
  const auto own = std::make_unique<Warp>();  // GCC 13 misaligns it on the stack with the address sanitizer
  Warp& warp = *own;
  warp.registers = registers.data();
  warp.parameters = parameters;
  warp.memory = &memory;
  warp.epoch_ns = NowNs(CLOCK_REALTIME);

  RunResult result;
  const auto threads = static_cast<unsigned>(block.Count());
  const unsigned warps = (threads + kLanes - 1) / kLanes;
  Dimensions place;
  for (place.z = 0; place.z < grid.z; ++place.z) {
    for (place.y = 0; place.y < grid.y; ++place.y) {
      for (place.x = 0; place.x < grid.x; ++place.x) {
        for (unsigned index = 0; index < warps; ++index) {
          const unsigned first = index * kLanes;
          const unsigned count = std::min(kLanes, threads - first);
          SetSpecials(registers, kernel, index, warps, grid, block, place);
          warp.warp_began_ns = 0;
          if (std::exchange(warp.waited, false)) warp.elapsed_ns.lane.fill(0);
          RunWarp(warp, kernel, count == kLanes ? ~std::uint32_t{0} : (std::uint32_t{1} << count) - 1);
          if (warp.waited) {
            const auto& elapsed = warp.elapsed_ns.lane;
            result.waited_ns = std::max(result.waited_ns, *std::max_element(elapsed.begin(), elapsed.end()));
          }
          if (warp.fault != Fault::kNone || warp.given_up) {
            result.fault = warp.fault;
            result.fault_address = warp.fault_address;
            result.given_up = warp.given_up;
            return result;
          }
        }
      }
    }
  }
  return result;
}

}  // namespace gpuman::sim::cuda::ptx
