// The messages between a shim and the daemon: one each way on a unix seqpacket socket, then both close it.
// docs/shim-protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

inline constexpr std::uint32_t kHelloMagic = 0x484d5047;    // "GPMH"
inline constexpr std::uint32_t kWelcomeMagic = 0x574d5047;  // "GPMW"

inline constexpr char kSocketVariable[] = "GPUMAN_SHIM_SOCKET";
inline constexpr char kJobVariable[] = "GPUMAN_JOB_ID";
inline constexpr char kKeyVariable[] = "GPUMAN_JOB_KEY";
// "1": this process may be asked to take its memory off the GPU. The shim reads it when the program looks up
// the driver's functions, before a ledger says the same (AllocationMode): later the shim could not intercept
// its launches any more.
inline constexpr char kEvictableVariable[] = "GPUMAN_SHIM_EVICTABLE";
// What plain memory of this process is made of. "vmm": memory that the daemon can move, where it may be asked
// to leave; "managed": managed memory, which the driver pages; "oversubscribe": the same, and more of it than
// the device has. Else: as "vmm", or as "managed" where the device has no virtual memory calls.
inline constexpr char kMemoryVariable[] = "GPUMAN_SHIM_MEMORY";
inline constexpr char kSocketName[] = "shim.sock";

// From the shim. The daemon knows the process by the socket; these fields only help to find its job.
struct Hello {
  std::uint32_t magic;
  std::uint32_t version;  // of the ledger that the shim understands
  std::uint64_t job;      // GPUMAN_JOB_ID; 0: not known
  char key[112];          // GPUMAN_JOB_KEY, ends with a zero
};

enum class Answer : std::uint32_t {
  kJoined = 1,        // two descriptors come with it
  kNoJob = 2,         // the process is in no job of this daemon: do not ask again
  kOtherVersion = 3,  // this daemon speaks another version: do not ask again
  kTryLater = 4,      // no slot, or no memory
};

// From the daemon. With kJoined come two descriptors of the ledger's file. The first has the lock of the
// slot: the process maps the ledger through it and closes it. The process keeps the second, to reclaim the
// slots of others.
struct Welcome {
  std::uint32_t magic;
  std::uint32_t version;  // of the ledger
  Answer answer;
  std::uint32_t slot;
  std::uint64_t bytes;  // size of the ledger
  std::uint8_t reserved[8];
};

static_assert(sizeof(Hello) == 128 && offsetof(Hello, job) == 8 && offsetof(Hello, key) == 16);
static_assert(sizeof(Welcome) == 32 && offsetof(Welcome, answer) == 8 && offsetof(Welcome, slot) == 12 &&
              offsetof(Welcome, bytes) == 16);

}  // namespace gpuman::ledger::wire
