// The shared memory of the simulated driver: one file, mapped MAP_SHARED by every process that uses the
// simulated NVML or CUDA library, and by gpuman-sim. Plain fixed-size data without pointers.
//
// Concurrency: `GpuStatic` and the identity fields of `Shared` are written before the file is published and
// do not change afterwards. All other fields are atomic. A process may be killed between any two
// instructions, so no invariant spans two words, except memory accounting, where other processes complete a
// dead process's operation (memory.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace gpuman::sim {

inline constexpr std::uint64_t kStateMagic = 0x4d49534d55504721;  // "!GPUMSIM"
inline constexpr std::uint32_t kStateVersion = 10;
inline constexpr unsigned kMaxGpus = 16;
inline constexpr unsigned kMaxInstances = 16;  // MIG instances, of all GPUs together
// GPUs, then MIG instances: every device with memory and processes of its own.
inline constexpr unsigned kMaxDevices = kMaxGpus + kMaxInstances;
inline constexpr unsigned kMaxProcesses = 4096;
inline constexpr unsigned kMaxShared = 8192;
inline constexpr unsigned kMaxHolders = 16;  // of the same memory; for those beyond it counts again
inline constexpr unsigned kEventRingSize = 256;
inline constexpr unsigned kMaxSlowCalls = 16;
inline constexpr unsigned kMaxRefusals = 8;
inline constexpr unsigned kMaxGroupLimits = 512;
inline constexpr unsigned kMaxGroups = 16;  // of one process: its cgroup and those around it, the nearest
inline constexpr unsigned kAllGpus = ~0u;
inline constexpr std::uint64_t kAccountingUnit = 4096;  // bytes; the unit in which memory is accounted

// Utilization is stored as busy time in buckets of time, so that no sampler must run.
inline constexpr std::uint64_t kBusyBucketNs = 100'000'000;
inline constexpr unsigned kBusyBuckets = 16;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

using Word32 = std::atomic<std::uint32_t>;
using Word64 = std::atomic<std::uint64_t>;
using Signed64 = std::atomic<std::int64_t>;

enum class ClockKind : std::uint32_t { kGraphics, kSm, kMemory, kVideo, kCount };
inline constexpr unsigned kClockKinds = static_cast<unsigned>(ClockKind::kCount);

// The features of a device; a call for a missing feature answers NOT_SUPPORTED.
enum Feature : std::uint64_t {
  kFeatureEcc = 1u << 0,
  kFeatureMig = 1u << 1,
  kFeaturePowerLimit = 1u << 2,  // the power limit can be set
  kFeaturePowerReading = 1u << 3,
  kFeatureFan = 1u << 4,
  kFeatureRemappedRows = 1u << 5,
  kFeatureRetiredPages = 1u << 6,
  kFeatureApplicationClocks = 1u << 7,
  kFeatureLockedGpuClocks = 1u << 8,
  kFeatureLockedMemoryClocks = 1u << 9,
  kFeatureEnergy = 1u << 10,
  kFeatureMemoryTemperature = 1u << 11,
  kFeatureViolations = 1u << 12,
  kFeatureSerial = 1u << 13,
  kFeaturePeerAccess = 1u << 14,  // one GPU reads another's memory: NVLink, or PCIe if the driver allows it
  kFeatureTemperatureLimit = 1u << 15,  // the "T.Limit" margin instead of absolute thresholds
  kFeatureVmm = 1u << 16,               // CUDA virtual memory management
  kFeatureManagedFaults = 1u << 17,     // concurrent managed access
  kFeaturePowerConstraints = 1u << 18,  // default/min/max power limit readable
  kFeatureAccounting = 1u << 19,
};

// Temperature thresholds by NVML's nvmlTemperatureThresholds_t; kNoThreshold = not supported.
inline constexpr unsigned kThresholds = 9;
inline constexpr std::int32_t kNoThreshold = INT32_MIN;

struct GpuStatic {
  char name[96];
  char uuid[48];  // "GPU-…"
  char serial[32];
  char vbios[32];
  char board_part_number[32];
  char inforom_image[32];
  char inforom_ecc[16];
  std::uint64_t features;  // Feature bits
  std::uint64_t memory_total;
  std::uint64_t memory_reserved;   // by the driver; capacity for programs is total minus this
  std::uint64_t context_overhead;  // bytes that one CUDA context takes
  std::uint64_t bar1_total;
  std::uint32_t pci_domain, pci_bus, pci_device;
  std::uint32_t pci_device_id, pci_subsystem_id;
  std::uint32_t minor_number;
  std::uint32_t board_id, module_id;
  std::uint32_t architecture;  // nvmlDeviceArchitecture_t
  std::uint32_t brand;         // nvmlBrandType_t
  std::uint32_t compute_major, compute_minor;
  std::uint32_t cores, multiprocessors;
  std::uint32_t memory_bus_width;  // bits
  std::uint32_t l2_cache_bytes;
  std::uint32_t shared_memory_per_multiprocessor;  // bytes
  std::uint32_t max_threads_per_multiprocessor;
  std::uint32_t pcie_max_gen, pcie_max_width, pcie_max_speed_mbps;
  std::uint32_t fans;
  std::uint64_t bus_to_device, bus_to_host;  // bytes a second of copies by cuMemcpy; 0 = unlimited
  std::uint32_t nvlinks;
  std::uint32_t nvlink_peers;            // bits: the GPUs, by index, that this one reaches by NVLink
  std::uint32_t pcie_switch, numa_node;  // equal numbers: the same switch, or node
  std::uint32_t mig_slices;              // most GPU instances; 0 without MIG
  std::uint32_t mig_kind;                // MigKind: what it can be split into (profiles/mig_tables.h)
  std::array<std::uint32_t, kClockKinds> clock_max_mhz;
  std::array<std::uint32_t, kClockKinds> clock_idle_mhz;
  std::array<std::uint32_t, 8> memory_clocks_mhz;  // supported, highest first; 0 ends the list
  std::uint32_t graphics_clock_min_mhz, graphics_clock_step_mhz;
  std::uint32_t power_min_mw, power_max_mw, power_default_mw;
  std::uint32_t power_idle_mw;          // the power of an idle device
  std::uint32_t power_context_mw;       // of one with a context and nothing to do; 0: as idle
  std::uint32_t power_idle_average_mw;  // its one-second average
  std::uint32_t memory_power_idle_mw;
  std::int32_t temperature_idle_c, memory_temperature_idle_c;
  std::array<std::int32_t, kThresholds> thresholds_c;
  std::int32_t tlimit_shutdown_c, tlimit_slowdown_c, tlimit_max_operating_c, tlimit_idle_margin_c;
  std::int32_t tlimit_memory_max_c;
  std::uint32_t remap_banks;          // banks with full remap availability
  std::uint32_t persistence_at_boot;  // 1 if the machine's start-up turns it on
};

inline constexpr std::int64_t kNotInjected = INT64_MIN;
inline constexpr unsigned kEccLocations = 9;  // nvmlMemoryLocation_t

struct GpuDynamic {
  // Memory in use: units of kAccountingUnit in the upper 28 bits, slot of the last operation in the next 12,
  // its sequence number in the last 24. Only memory.cc reads or writes it.
  Word64 memory;

  // Settings: lost when the driver unloads (last client gone, persistence off), except the pending ECC mode,
  // and the MIG mode on GPUs that keep it.
  Word32 persistence;
  Word32 compute_mode;
  Word32 power_limit_mw;
  Word32 locked_graphics_min_mhz, locked_graphics_max_mhz;  // 0 = not locked
  Word32 locked_memory_min_mhz, locked_memory_max_mhz;
  Word32 application_graphics_mhz, application_memory_mhz;
  Word32 accounting;
  Word32 ecc_current, ecc_pending;
  Word32 mig_current, mig_pending;

  // Readings; kNotInjected = computed from the profile and the load.
  Signed64 temperature_c, memory_temperature_c;
  Signed64 power_mw;
  Signed64 throttle_reasons;                     // nvmlClocksEventReason bits
  Signed64 utilization_gpu, utilization_memory;  // percent
  Signed64 pcie_gen, pcie_width;
  Signed64 fan_percent;

  // Counters.
  std::array<std::array<std::array<Word64, kEccLocations>, 2>, 2>
      ecc;  // [0 volatile,1 aggregate][0 corrected,1 not][location]
  Word32 remapped_correctable, remapped_uncorrectable, remap_pending, remap_failed;
  Word32 retired_single_bit, retired_double_bit, retired_pending;
  Word32 pcie_replays;
  std::array<Word64, 8> violation_ns;  // by nvmlPerfPolicyType_t
  Word32 last_xid;
  Word32 recovery_action;  // field 230
  Word32 lost;             // every call answers GPU_IS_LOST, CUDA fails with CUDA_ERROR_DEVICE_UNAVAILABLE
  // Until when (CLOCK_MONOTONIC) copies of all processes occupy the bus: [0 to the device, 1 to the host].
  std::array<Word64, 2> bus_busy_until_ns;
  Word64 energy_since_ns;  // CLOCK_MONOTONIC; when the energy counter began, with the driver or a reset
  Word64 nvlink_crc_errors;
  Word64 nvlinks_down;               // bits
  Word64 sram_threshold;             // 1: errors in on-chip memory have passed NVIDIA's threshold
  Word32 mig_needs_reset;            // a change of the MIG mode takes effect only with the next reset
  Word32 mig_create_fails_in;        // 0 = never; n = the n-th GPU instance from now fails
  Word32 mig_create_fails_for_good;  // and all after it fail
  Word32 unused;
  Word64 worked_ns;  // by kernels that have ended, of all processes, since energy_since_ns
  Word64
      energy_shown_mj;  // the most that was read: the counter never goes back, also when a process is killed
  // How long its clocks were high since energy_since_ns, until when they will be, and up to when this was
  // counted (CLOCK_MONOTONIC).
  Word64 awake_ns, awake_until_ns, awake_counted_ns;
  Word64 spare[19];
};

// One GPU of one process.
struct ProcessGpu {
  Word64 intent;  // sequence << 40 | two's complement of the change in units, 40 bits (memory.cc)
  Word64 held;    // sequence of the last operation applied << 40 | units held (memory.cc)
  Word32 contexts;
  Word32 graphics;                        // non-zero: also counts as a graphics client
  Word64 busy_since_ns;                   // CLOCK_MONOTONIC; 0 = no kernel running
  Word64 last_activity_ns;                // CLOCK_MONOTONIC
  Word64 context_created_us;              // CLOCK_REALTIME
  std::array<Word64, kBusyBuckets> busy;  // bucket number << 32 | busy microseconds in it
  Signed64 managed;         // bytes of managed memory on the GPU, as far as there is room; not in `held`
  Word64 compute_instance;  // for a MIG instance: the compute instance of this process
  Word64 spare[2];
};

enum class CheckpointState : std::uint32_t { kRunning = 0, kLocked = 1, kCheckpointed = 2, kFailed = 3 };
enum class CheckpointRequest : std::uint32_t {
  kNone = 0,
  kLock = 1,
  kCheckpoint = 2,
  kRestore = 3,
  kUnlock = 4
};

// A mailbox: another process writes request and arguments and increments `asked` (a futex); the process
// itself acts and sets `answered` (a futex) to the same number.
struct Checkpoint {
  Word32 state;  // CheckpointState; a futex word
  Word32 unused;
  Word32 asked;
  Word32 answered;
  Word32 request;  // CheckpointRequest
  Word32 timeout_ms;
  std::atomic<std::int32_t> result;      // CUresult
  Word32 pairs;                          // entries of gpu_map that count; 0 = no move
  std::array<Word32, kMaxGpus> gpu_map;  // restore: index of old GPU -> index of new
  Word32 restore_thread;                 // thread of the process that answers
  Word32 unused2;
  Word64 caller;  // the mailbox's owner, as ProcessSlot's owner; 0 = none; taken by compare-and-swap
  Word64 spare[6];
};

struct ProcessSlot {
  // The process of the slot (identity.h); identities are not reused. 0 = free. Claimed by compare-and-swap.
  Word64 owner;
  Word64 published;  // == owner once the claimer has cleared the fields below; a slot counts from then on
  Word64 image;      // differs after an execve of the same process
  Word32 users;      // libraries of this process that use the slot
  Word32 euid;
  char name[64];  // comm
  Checkpoint checkpoint;
  std::array<ProcessGpu, kMaxDevices> gpu;
  std::array<Word64, kMaxGroups> groups;  // inodes of its cgroup v2 and those around it; 0 ends them
};

// A limit of a cgroup's memory on one GPU (limits.h).
struct GroupLimit {
  Word64 key;           // inode of the cgroup << 8 | GPU + 1; 0: free
  Word64 hard_and_one;  // the hard limit + 1; 0: no limit
  Word64 soft;
  Word32 times;  // how often it was set
  Word32 unused;
  char path[256];  // of the cgroup
};

// Memory that several processes hold (sharing.h).
struct SharedMemory {
  struct Holder {
    Word64 owner;  // as ProcessSlot's; 0: none
    Word32 slot;
    Word32 unused;
  };
  Word64 inode;  // of the memory's file; 0: free
  Word64 units;
  Word32 gpu;
  Word32 unused;
  std::array<Holder, kMaxHolders> holders;
};

struct Event {
  Word64 sequence;  // number of the event + 1 once complete
  Word64 gpu;
  Word64 type;     // nvmlEventType bits
  Word64 data;     // the Xid
  Word64 time_us;  // CLOCK_REALTIME
};

struct SlowCall {
  Word64 active;  // 0 = unused
  Word32 gpu;     // kAllGpus = any, calls without a device too
  Word32 delay_ms;
  Word32 hang;        // non-zero: until cleared
  char function[64];  // "" = any
};

// Calls that change a setting and are refused, or report success without effect.
struct Refusal {
  Word64 active;  // 0 = unused
  Word32 gpu;     // kAllGpus = any
  Word32 status;  // nvmlReturn_t; 0: the call reports success
  Word64 nth;     // the n-th call from now, 1 = the next
  Word32 for_good;
  char function[64];  // "" = any
};

struct Faults {
  Word32 change;  // a futex word, incremented when anything here changes: ends hangs that were cleared
  Word32 slow_calls_active;
  std::array<SlowCall, kMaxSlowCalls> slow_calls;
  std::array<Refusal, kMaxRefusals> refusals;
  // 0 = none; n = the n-th reservation from now fails (1 = the next).
  std::array<Word64, kMaxDevices> allocation_fails_in;
  // The same for copies between the GPU and page-locked host memory; for_good: the context is lost as well.
  std::array<Word64, kMaxDevices> copy_fails_in;
  std::array<Word32, kMaxDevices> copy_fails_for_good;
  std::array<Word32, kMaxDevices> modules_fail;  // non-zero: none can be loaded
  // The process whose contexts are lost with its next call; 0: none. As its own pid namespace numbers it.
  Word64 loses_contexts;
};

// A MIG GPU instance (mig.h). In the arrays of devices, its memory and processes are at kMaxGpus plus its
// index.
struct MigSlot {
  Word64 what;     // 0: free; else gpu, row of the table, first slice of the memory and id
  Word32 compute;  // four bits for each slice of the multiprocessors: size of the compute instance that
                   // begins there
  Word32 unused;
};

struct Shared {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t size;  // sizeof(Shared)
  char profile[32];
  char driver_version[32];                                 // "580.159.04"
  std::uint32_t driver_major, driver_minor, driver_patch;  // the same as numbers
  std::uint32_t cuda_version;                              // 13000
  std::uint32_t gpus;
  std::uint32_t machine_space;  // the pid namespace that sees every process (identity.h)

  Word32 ready;         // the creator sets it last
  Word32 driver_loads;  // how often the simulated driver was loaded
  Word32 slot_limit;    // slots at or above this were never used

  Word64 checkpoint_speed,
      restore_speed;  // of the driver's process checkpoint, bytes a second; 0 = unlimited

  Faults faults;

  Word32 event_wake;  // a futex word, incremented after each event
  Word64 event_next;  // number of the next event
  std::array<Event, kEventRingSize> events;

  std::array<GpuStatic, kMaxDevices> gpu_static;  // an instance's is written before the instance exists
  std::array<GpuDynamic, kMaxDevices> gpu;
  std::array<ProcessSlot, kMaxProcesses> processes;

  Word64 mig_lock;  // the process that changes instances, as ProcessSlot's owner; 0: none
  std::array<MigSlot, kMaxInstances> mig;

  Word32 sharing_limit;  // entries at or above this were never used
  std::array<SharedMemory, kMaxShared> sharing;

  Word32 group_limits_end;  // entries at or above this were never used
  std::array<GroupLimit, kMaxGroupLimits> group_limits;
};

}  // namespace gpuman::sim
