#include "sim/profiles/mig_tables.h"

#include <array>

namespace gpuman::sim {
namespace {

// NVML_GPU_INSTANCE_PROFILE_…
constexpr std::uint32_t k1 = 0, k2 = 1, k3 = 2, k4 = 3, k7 = 4, k1Media = 7, k2Media = 8, k1Big = 9;

constexpr std::array<MigProfile, 5> kA30{{
    {"1g.6gb", k1, 14, 1, 4, 14, 5952, 1, 0, 0, 0, 0b1111, 1},
    {"1g.6gb+me", k1Media, 21, 1, 1, 14, 5952, 1, 1, 1, 1, 0b1111, 1},
    {"2g.12gb", k2, 5, 2, 2, 28, 12032, 2, 2, 0, 0, 0b101, 2},
    {"2g.12gb+me", k2Media, 6, 2, 1, 28, 12032, 2, 2, 1, 1, 0b101, 2},
    {"4g.24gb", k4, 0, 4, 1, 56, 24256, 4, 4, 1, 1, 0b1, 4},
}};

constexpr std::array<MigProfile, 7> A100(const std::array<const char*, 7>& names,
                                         const std::array<std::uint32_t, 4>& mib) {
  return {{
      {names[0], k1, 19, 1, 7, 14, mib[0], 1, 0, 0, 0, 0b1111111, 1},
      {names[1], k1Media, 20, 1, 1, 14, mib[0], 1, 1, 1, 1, 0b1111111, 1},
      {names[2], k1Big, 15, 1, 4, 14, mib[1], 1, 1, 0, 0, 0b1010101, 2},
      {names[3], k2, 14, 2, 3, 28, mib[1], 2, 1, 0, 0, 0b10101, 2},
      {names[4], k3, 9, 3, 2, 42, mib[2], 3, 2, 0, 0, 0b10001, 4},
      {names[5], k4, 5, 4, 1, 56, mib[2], 4, 2, 0, 0, 0b1, 4},
      {names[6], k7, 0, 7, 1, 98, mib[3], 7, 5, 1, 1, 0b1, 8},
  }};
}

constexpr std::array<MigProfile, 7> Hopper(const std::array<const char*, 7>& names,
                                           const std::array<std::uint32_t, 4>& mib) {
  return {{
      {names[0], k1, 19, 1, 7, 16, mib[0], 1, 1, 1, 0, 0b1111111, 1},
      {names[1], k1Media, 20, 1, 1, 16, mib[0], 1, 1, 1, 1, 0b1111111, 1},
      {names[2], k1Big, 15, 1, 4, 26, mib[1], 1, 1, 1, 0, 0b1010101, 2},
      {names[3], k2, 14, 2, 3, 32, mib[1], 2, 2, 2, 0, 0b10101, 2},
      {names[4], k3, 9, 3, 2, 60, mib[2], 3, 3, 3, 0, 0b10001, 4},
      {names[5], k4, 5, 4, 1, 64, mib[2], 4, 4, 4, 0, 0b1, 4},
      {names[6], k7, 0, 7, 1, 132, mib[3], 8, 7, 7, 1, 0b1, 8},
  }};
}

constexpr auto kA100With40 =
    A100({"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"},
         {4864, 9856, 19968, 40192});
constexpr auto kA100With80 =
    A100({"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
         {9728, 19968, 40192, 80640});
constexpr auto kH100With80 =
    Hopper({"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
           {9984, 20096, 40448, 81152});
constexpr auto kH100With94 =
    Hopper({"1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"},
           {11008, 22144, 47488, 95360});
constexpr auto kH100With96 =
    Hopper({"1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"},
           {11264, 23552, 47616, 95232});
constexpr auto kH200 =
    Hopper({"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"},
           {16384, 33024, 71168, 143104});

}  // namespace

std::span<const MigProfile> MigProfiles(MigKind kind) {
  switch (kind) {
    case MigKind::kNone:
      return {};
    case MigKind::kA30:
      return kA30;
    case MigKind::kA100With40:
      return kA100With40;
    case MigKind::kA100With80:
      return kA100With80;
    case MigKind::kH100With80:
      return kH100With80;
    case MigKind::kH100With94:
      return kH100With94;
    case MigKind::kH100With96:
      return kH100With96;
    case MigKind::kH200:
      return kH200;
  }
  return {};
}

std::uint32_t MigComputeSizes(std::uint32_t slices) {
  constexpr auto bits = [](auto... sizes) { return ((1u << sizes) | ...); };
  switch (slices) {
    case 1:
      return bits(1);
    case 2:
      return bits(1, 2);
    case 3:
      return bits(1, 2, 3);
    case 4:
      return bits(1, 2, 4);
    default:
      return bits(1, 2, 3, 4, 7);
  }
}

}  // namespace gpuman::sim
