// The messages between a shim and the daemon. Each side sends one message on a unix seqpacket socket; then
// both sides close the socket. See docs/shim-protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

inline constexpr std::uint32_t kHelloMagic = 0x484d5047;    // "GPMH"
inline constexpr std::uint32_t kWelcomeMagic = 0x574d5047;  // "GPMW"

inline constexpr char kSocketVariable[] = "GPUMAN_SHIM_SOCKET";
inline constexpr char kJobVariable[] = "GPUMAN_JOB_ID";
inline constexpr char kKeyVariable[] = "GPUMAN_JOB_KEY";
// "1": the daemon may order this process to take its memory off the GPU. The shim reads the variable when the
// program looks up the driver's functions, before a ledger says the same (AllocationMode). Later the shim
// could not replace the program's launch functions any more.
inline constexpr char kEvictableVariable[] = "GPUMAN_SHIM_EVICTABLE";
// What the shim makes plain memory of. "vmm": backed memory where the process may have to evict it, else the
// driver's plain memory. "managed": managed memory, which the driver pages. "oversubscribe": managed memory,
// also more of it than the device has. Other values: as "vmm"; where the process may have to evict its memory
// and the device has no virtual memory calls, as "managed".
inline constexpr char kMemoryVariable[] = "GPUMAN_SHIM_MEMORY";
inline constexpr char kSocketName[] = "shim.sock";

// From the shim. The daemon knows the process by the socket; these fields only help the daemon find its job.
struct ShimHello {
  std::uint32_t magic;
  std::uint32_t version;  // of the ledger that the shim understands
  std::uint64_t job;      // GPUMAN_JOB_ID; 0: not known
  char key[112];          // GPUMAN_JOB_KEY, ends with a zero
};

enum class JoinAnswer : std::uint32_t {
  kJoined = 1,        // two descriptors come with this answer
  kNoJob = 2,         // the process is in no job of this daemon; the shim does not ask again
  kOtherVersion = 3,  // this daemon speaks another version; the shim does not ask again
  kTryLater = 4,      // there is no free slot, or no memory
};

// From the daemon. Two descriptors of the ledger's file come with kJoined. The first holds the lock on the
// slot: the shim maps the ledger through it and closes it. The shim keeps the second, to reclaim the slots of
// other processes.
struct Welcome {
  std::uint32_t magic;
  std::uint32_t version;  // of the ledger
  JoinAnswer answer;
  std::uint32_t slot;
  std::uint64_t bytes;  // size of the ledger
  std::uint8_t reserved[8];
};

static_assert(sizeof(ShimHello) == 128 && offsetof(ShimHello, job) == 8 && offsetof(ShimHello, key) == 16);
static_assert(sizeof(Welcome) == 32 && offsetof(Welcome, answer) == 8 && offsetof(Welcome, slot) == 12 &&
              offsetof(Welcome, bytes) == 16);

}  // namespace gpuman::ledger::wire
