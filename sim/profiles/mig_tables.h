// How each kind of GPU can be split (MIG): its profiles, with the places of each.
//
// Counts, engines and names are from NVIDIA's Multi-Instance GPU User Guide, "Supported MIG Profiles". Ids,
// memory, multiprocessors and places are from the output of `nvidia-smi mig -lgip` and `-lgipp` on such GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gpuman::sim {

enum class MigKind : std::uint32_t {
  kNone,
  kA30,
  kA100With40,
  kA100With80,
  kH100With80,
  kH100With94,
  kH100With96,
  kH200
};

struct MigProfile {
  const char* name;      // "1g.10gb+me"
  std::uint32_t index;   // NVML_GPU_INSTANCE_PROFILE_…
  std::uint32_t id;      // the id to create it by
  std::uint32_t slices;  // of the multiprocessors
  std::uint32_t most;    // the most that a GPU can have
  std::uint32_t multiprocessors;
  std::uint32_t memory_mib;
  std::uint32_t copy_engines, decoders, jpegs, ofas;
  std::uint32_t starts;  // bit n: it may start at slice n of the memory
  std::uint32_t size;    // slices of the memory
};

// Empty for kNone.
std::span<const MigProfile> MigProfiles(MigKind kind);

// Bit n: a compute instance of n slices can be made in a GPU instance of `slices`.
std::uint32_t MigComputeSizes(std::uint32_t slices);

}  // namespace gpuman::sim
