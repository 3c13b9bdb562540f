#include "mover/chunk_hash.h"

#include <sys/auxv.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gpuman::mover {
namespace {

using Tables = HashKey::Tables;
constexpr std::uint64_t kStrips = HashKey::kStrips, kSums = HashKey::kSums, kRows = HashKey::kRows;

// The NH value of each strip in each sum.
using StripValues = std::array<std::array<std::uint64_t, kSums>, kStrips>;
using Unit = std::array<std::uint32_t, 4>;

std::uint64_t Products(const Unit& unit, const std::uint32_t* key) {
  return std::uint64_t{unit[0] + key[0]} * (unit[1] + key[1]) +
         std::uint64_t{unit[2] + key[2]} * (unit[3] + key[3]);
}

void ValueStrips(const Tables& key, const std::uint8_t* chunk, StripValues& values) {
  values = {};
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (auto& value : values) {
      Unit unit;
      std::memcpy(unit.data(), chunk, sizeof unit);
      chunk += sizeof unit;
      for (std::uint64_t sum = 0; sum < kSums; ++sum)
        value[sum] += Products(unit, key.nh.data() + 4 * (row + sum));
    }
  }
}

#if defined(__x86_64__)
#define GPUMAN_AVX2 __attribute__((target("avx2")))

GPUMAN_AVX2 inline __m256i KeyOfUnits(const std::uint32_t* key) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(key)));
}

// Adds the two products of each of two units.
GPUMAN_AVX2 inline __m256i AddProducts(__m256i to, __m256i units, __m256i key) {
  const __m256i words = _mm256_add_epi32(units, key);
  return _mm256_add_epi64(to, _mm256_mul_epu32(words, _mm256_srli_epi64(words, 32)));
}

// Two strips side by side. They go through a few rows before the next two do: that many streams of memory a
// processor fetches ahead, and partial sums stay in registers meanwhile.
GPUMAN_AVX2 void ValueStripsByVectors(const Tables& key, const std::uint8_t* chunk, StripValues& values) {
  constexpr std::uint64_t kTogether = 8, kPairs = kStrips / 2;
  struct Partial {
    __m256i sum[kSums];  // two halves of the first strip's value, two of the second's
  };
  Partial partial[kPairs] = {};
  for (std::uint64_t first = 0; first < kRows; first += kTogether) {
    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
      Partial now = partial[pair];
      for (std::uint64_t row = first; row < first + kTogether; ++row) {
        const auto* at = chunk + row * HashKey::kRowBytes + pair * sizeof(__m256i);
        const __m256i units = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
        const std::uint32_t* k = key.nh.data() + 4 * row;
        now.sum[0] = AddProducts(now.sum[0], units, KeyOfUnits(k));
        now.sum[1] = AddProducts(now.sum[1], units, KeyOfUnits(k + 4));
        now.sum[2] = AddProducts(now.sum[2], units, KeyOfUnits(k + 8));
        now.sum[3] = AddProducts(now.sum[3], units, KeyOfUnits(k + 12));
      }
      partial[pair] = now;
    }
  }
  for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
    for (std::uint64_t sum = 0; sum < kSums; ++sum) {
      std::array<std::uint64_t, 4> halves;
      std::memcpy(halves.data(), &partial[pair].sum[sum], sizeof halves);
      values[2 * pair][sum] = halves[0] + halves[1];
      values[2 * pair + 1][sum] = halves[2] + halves[3];
    }
  }
}
#undef GPUMAN_AVX2

bool HasVectors() { return __builtin_cpu_supports("avx2") != 0; }
#else
void ValueStripsByVectors(const Tables&, const std::uint8_t*, StripValues&) {}
bool HasVectors() { return false; }
#endif

ChunkHash HashFrom(const Tables& key, std::span<const std::uint64_t, kSums> sums) {
  ChunkHash hash;
  for (std::uint64_t i = 0; i < kSums; ++i)
    hash.words[i] = static_cast<std::uint32_t>((key.added[i] + sums[i]) >> 32);
  return hash;
}

ChunkHash HashOfStrips(const Tables& key, const StripValues& values) {
  std::array<std::uint64_t, kSums> sums{};
  for (std::uint64_t strip = 0; strip < kStrips; ++strip) {
    for (std::uint64_t i = 0; i < kSums; ++i) {
      const auto& m = key.multilinear[strip][i];
      const std::uint64_t n = values[strip][i];
      sums[i] += m[0] * static_cast<std::uint32_t>(n) + m[1] * (n >> 32);
    }
  }
  return HashFrom(key, sums);
}

// All strips of zeros are the same.
ChunkHash HashOfZeros(const Tables& key) {
  std::array<std::uint64_t, kSums> value{};
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (std::uint64_t sum = 0; sum < kSums; ++sum)
      value[sum] += Products({}, key.nh.data() + 4 * (row + sum));
  }
  StripValues values;
  values.fill(value);
  return HashOfStrips(key, values);
}

// Every bit by itself depends on the seed, which is all that a test needs.
Tables TablesOf(std::uint64_t seed) {
  Tables tables;
  std::uint64_t n = base::SplitMix64(seed);
  for (auto& strip : tables.multilinear) {
    for (auto& m : strip) {
      for (auto& word : m) word = base::SplitMix64(n++);
    }
  }
  for (auto& word : tables.nh) word = static_cast<std::uint32_t>(base::SplitMix64(n++));
  for (auto& word : tables.added) word = base::SplitMix64(n++);
  return tables;
}

// False: this process may not ask for random numbers in this way.
bool AskForRandom(char* to, std::size_t bytes) {
  constexpr std::size_t kAtOnce = 256;  // which no signal interrupts
  for (std::size_t done = 0; done < bytes;) {
    const auto got = ::getrandom(to + done, std::min(kAtOnce, bytes - done), 0);
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

HashKey::HashKey(const Tables& tables) : tables_(tables), of_zeros_(HashOfZeros(tables)) {}

HashKey HashKey::Random() {
  // Where a sandbox refuses both sources there are still the 16 bytes that each program is started with.
  std::uint64_t start = 0;
  if (const auto* at = reinterpret_cast<const void*>(::getauxval(AT_RANDOM)))
    std::memcpy(&start, at, sizeof start);
  Tables tables = TablesOf(start);
  auto* bytes = reinterpret_cast<char*>(&tables);
  if (!AskForRandom(bytes, sizeof tables))
    std::ifstream("/dev/urandom", std::ios::binary).read(bytes, sizeof tables);
  return HashKey(tables);
}

HashKey HashKey::Of(std::uint64_t seed) { return HashKey(TablesOf(seed)); }

ChunkHash HashFrom(const HashKey& key, std::span<const std::uint64_t, HashKey::kSums> sums) {
  return HashFrom(key.tables(), sums);
}

ChunkHash HashOf(const HashKey& key, const std::uint8_t* chunk) {
  static const bool kHasVectors = HasVectors();
  if (!kHasVectors) return HashWithoutVectors(key, chunk);
  StripValues values;
  ValueStripsByVectors(key.tables(), chunk, values);
  return HashOfStrips(key.tables(), values);
}

ChunkHash HashWithoutVectors(const HashKey& key, const std::uint8_t* chunk) {
  StripValues values;
  ValueStrips(key.tables(), chunk, values);
  return HashOfStrips(key.tables(), values);
}

bool IsZero(const HashKey& key, const ChunkHash& hash) { return hash == key.of_zeros(); }

}  // namespace gpuman::mover
