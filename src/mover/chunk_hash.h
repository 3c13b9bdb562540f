// A keyed hash of a chunk of memory: whether a chunk is still what it was, without the bytes that it was.
//
// The same function runs on a GPU (chunk_hash.ptx, hasher.h) and, bit for bit, on a processor (here). It is
// for comparisons within one process: nothing stores a hash or a key, and the function may change.
//
// A chunk is 512 rows of 256 units of 16 bytes; the units of a column are a strip, which one thread of the
// GPU reads. Words are 32 bits, little-endian. For each of four sums i:
//   NH (Black et al., "UMAC", 1999) of a strip, modulo 2^64, over its units j with the words w0 to w3:
//     n = sum of (w0 + k[4(j+i)]) * (w1 + k[4(j+i)+1]) + (w2 + k[4(j+i)+2]) * (w3 + k[4(j+i)+3]),
//     where a word and its key are added modulo 2^32. The four sums take the same key, each four words
//     further on (Toeplitz).
//   Multilinear (Lemire and Kaser, "Strongly universal string hashing is fast", 2014) over the strips t,
//   modulo 2^64:
//     s = a[i] + sum of m[t][i][0] * (n's low half) + m[t][i][1] * (n's high half).
// The hash is the high half of each of the four s.
//
// Two chunks that differ have the same hash for one key in 2^124. Take a strip in which they differ, and in
// it the last pair of words. Sum i multiplies that pair by key words that no sum before it has used where
// the chunks differ; so the n of that strip are the same in a given set of the four sums with a probability
// of 2^-32 for each of them. Where all n of a sum are the same, so is its word of the hash; where they are
// not, it is with 2^-32, as the multilinear step is strongly universal and its keys are those of this sum
// alone. Over the 2^4 sets that is 2^4 * 2^-128. This holds for chunks that nobody chose by the key, which
// is why the key never leaves the process. docs/suspend.md says what it comes to in ten years.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace gpuman::mover {

inline constexpr std::uint64_t kChunk = std::uint64_t{2} << 20;

struct ChunkHash {
  std::array<std::uint32_t, 4> words{};
  friend bool operator==(const ChunkHash&, const ChunkHash&) = default;
};

// What decides which hash a chunk has. Secret and random, and never leaves the mover. Immutable.
class HashKey {
 public:
  static constexpr std::uint64_t kUnitBytes = 16, kStrips = 256, kSums = 4;
  static constexpr std::uint64_t kRowBytes = kStrips * kUnitBytes, kRows = kChunk / kRowBytes;

  // As the kernel of the GPU reads it.
  struct Tables {
    std::array<std::array<std::array<std::uint64_t, 2>, kSums>, kStrips> multilinear;  // m
    std::array<std::uint32_t, 4 * (kRows + kSums - 1)> nh;                             // k
    std::array<std::uint64_t, kSums> added;  // a; the GPU leaves it to HashFrom
  };
  static_assert(sizeof(Tables) == kStrips * kSums * 16 + 4 * 4 * (kRows + kSums - 1) + kSums * 8,
                "no padding: Random fills all of it");

  // Makes a key from the kernel's random numbers.
  static HashKey Random();
  // For tests alone: whoever knows the seed knows the key.
  static HashKey Of(std::uint64_t seed);

  const Tables& tables() const { return tables_; }
  const ChunkHash& of_zeros() const { return of_zeros_; }

 private:
  explicit HashKey(const Tables& tables);
  Tables tables_;
  ChunkHash of_zeros_;
};

// Hashes kChunk bytes at any address, on this processor, with 256-bit vectors if it has them.
ChunkHash HashOf(const HashKey& key, const std::uint8_t* chunk);
// The same by instructions that every processor has.
ChunkHash HashWithoutVectors(const HashKey& key, const std::uint8_t* chunk);
// Whether it is the hash of a chunk of zeros.
bool IsZero(const HashKey& key, const ChunkHash& hash);

// The end of the computation: from the sums over all strips, which is what the kernel of the GPU gives.
ChunkHash HashFrom(const HashKey& key, std::span<const std::uint64_t, HashKey::kSums> sums);

}  // namespace gpuman::mover
