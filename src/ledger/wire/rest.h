// How a process that is ordered to hold comes to rest, and how the daemon lets a few of its calls pass
// meanwhile: four words of the process's slot, and one of the ledger.
//
// The work of a process may wait for work that another process of the job has not launched yet, because that
// process stands at its closed gate. So a process that carries out kHold tells which GPUs work and where
// threads wait (`rest`, `rest_state`). The daemon may then grant it calls (`call_grant`): so many calls pass
// for one GPU, one at a time. The process tells how that ended (`grant_report`). In all words, zero means
// what holds with a shim or a daemon that does not know the word.
#pragma once

#include <cstdint>

#include "ledger/wire/layout.h"

namespace gpuman::ledger::wire {

// A call grant. The daemon writes it into `call_grant`.
struct CallGrant {
  static constexpr unsigned kAnyGpu = 31;
  static constexpr unsigned kMaxCalls = 1023, kMaxStride = 7;
  unsigned gpu = kAnyGpu;  // the index in the ledger; kAnyGpu: the call that waits longest
  unsigned calls = 0;      // how many calls may pass at most; 0: the grant is withdrawn
  unsigned stride = 0;     // log2 of how many calls pass between two looks whether the GPU is at rest
  bool careful = false;    // before each call but the first the shim waits 100 us more
  bool behind = false;     // a call passes although the GPU works, and nothing is awaited
  friend bool operator==(const CallGrant&, const CallGrant&) = default;
};

// The number of a grant: 1 to 4095, and then 1 again; 0: there has been no grant.
inline constexpr unsigned kGrantNumberBits = 12;
inline constexpr unsigned kMaxGrantNumber = (1u << kGrantNumberBits) - 1;
constexpr unsigned GrantNumberAfter(unsigned number) { return number >= kMaxGrantNumber ? 1 : number + 1; }

// A number of calls, or a stride, that is too large for the word counts as the largest.
constexpr std::uint32_t PackCallGrant(const CallGrant& grant, unsigned number) {
  const unsigned gpu = grant.gpu < kMaxGpus ? grant.gpu : CallGrant::kAnyGpu;
  const unsigned calls = grant.calls < CallGrant::kMaxCalls ? grant.calls : CallGrant::kMaxCalls;
  const unsigned stride = grant.stride < CallGrant::kMaxStride ? grant.stride : CallGrant::kMaxStride;
  return gpu | stride << 5 | (grant.careful ? 1u << 8 : 0) | (grant.behind ? 1u << 9 : 0) | calls << 10 |
         number << 20;
}
constexpr CallGrant CallGrantOf(std::uint32_t word) {
  return {word & 31, word >> 10 & 1023, word >> 5 & 7, (word >> 8 & 1) != 0, (word >> 9 & 1) != 0};
}
constexpr unsigned GrantNumberOf(std::uint32_t word) { return word >> 20; }

// Why a grant has ended.
enum class CallGrantEndReason : std::uint32_t {
  // It is open. Where `calls` is above 0, it lets no more pass, and ends when the GPU comes to rest.
  kNotYet = 0,
  kUsedUp = 1,         // all calls have passed, and the GPU is at rest (with `behind`: they have passed)
  kAtWork = 2,         // a call has not come to rest at once
  kNobodyWaited = 3,   // no thread waited at the gate for the GPU
  kOthersChanged = 4,  // meanwhile a GPU of another process came to rest
  kWithdrawn = 5,      // by the daemon: the grant, or the order to hold
  kRefused = 6         // memory of the process is away or leaves, or no order holds it
};
inline constexpr std::uint32_t kCallGrantEndReasons = 7;

// What the process tells of a grant.
struct CallGrantReport {
  unsigned number = 0;  // of the grant; 0: the process has seen none
  CallGrantEndReason ended = CallGrantEndReason::kNotYet;
  unsigned calls = 0;  // how many calls have passed
  friend bool operator==(const CallGrantReport&, const CallGrantReport&) = default;
};
constexpr std::uint32_t PackCallGrantReport(const CallGrantReport& report) {
  const unsigned calls = report.calls < 0xffff ? report.calls : 0xffff;
  return report.number << 20 | static_cast<std::uint32_t>(report.ended) << 16 | calls;
}
constexpr CallGrantReport CallGrantReportOf(std::uint32_t word) {
  const std::uint32_t ended = word >> 16 & 15;
  return {
      word >> 20,
      ended < kCallGrantEndReasons ? static_cast<CallGrantEndReason>(ended) : CallGrantEndReason::kRefused,
      word & 0xffff};
}

// Of `rest`: one bit for each GPU in either half.
constexpr std::uint32_t PackRest(std::uint16_t works, std::uint16_t waits) {
  return std::uint32_t{waits} << 16 | works;
}

// The bits of `rest_state`. Its upper half grows with each change of the other bits, or of `rest`.
inline constexpr std::uint32_t kRestShut = 1;       // an order has closed the gate, and no memory leaves yet
inline constexpr std::uint32_t kRestInFlight = 2;   // a call has not returned
inline constexpr std::uint32_t kRestCapturing = 4;  // a stream is captured; the gate is open meanwhile
inline constexpr std::uint32_t kRestAnywhere = 8;  // a thread waits at the gate, and for no GPU that is known
inline constexpr std::uint32_t kRestForRoom = 16;  // a thread waits for room, outside the gate

}  // namespace gpuman::ledger::wire
