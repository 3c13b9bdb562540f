#include "mover/chunk_hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "mover/test_bytes.h"

namespace gpuman::mover {
namespace {

// As chunk_hash.h writes the function down, word by word, with no thought of speed.
ChunkHash Reference(const HashKey::Tables& key, const Bytes& chunk) {
  const auto word = [&](std::uint64_t row, std::uint64_t strip, std::uint64_t index) {
    std::uint32_t value = 0;
    for (unsigned byte = 0; byte < 4; ++byte)
      value |= std::uint32_t{chunk[4096 * row + 16 * strip + 4 * index + byte]} << (8 * byte);
    return value;
  };
  const auto plus = [](std::uint32_t a, std::uint32_t b) {
    return (std::uint64_t{a} + b) % (std::uint64_t{1} << 32);
  };
  ChunkHash hash;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint64_t s = key.added[i];
    for (unsigned t = 0; t < 256; ++t) {
      std::uint64_t n = 0;
      for (unsigned j = 0; j < 512; ++j) {
        for (const unsigned pair : {0u, 2u}) {
          n += plus(word(j, t, pair), key.nh[4 * (j + i) + pair]) *
               plus(word(j, t, pair + 1), key.nh[4 * (j + i) + pair + 1]);
        }
      }
      s += key.multilinear[t][i][0] * (n % (std::uint64_t{1} << 32));
      s += key.multilinear[t][i][1] * (n / (std::uint64_t{1} << 32));
    }
    hash.words[i] = static_cast<std::uint32_t>(s / (std::uint64_t{1} << 32));
  }
  return hash;
}

// How many of the four words two hashes have in common.
unsigned InCommon(const ChunkHash& a, const ChunkHash& b) {
  unsigned count = 0;
  for (std::size_t i = 0; i < a.words.size(); ++i) count += a.words[i] == b.words[i] ? 1U : 0U;
  return count;
}

class ChunkHashTest : public testing::Test {
 protected:
  ChunkHash Hash() const { return HashOf(key, chunk.data()); }
  // Each of the four words has to see the change: a word that does not is worth nothing.
  void ExpectOther(const std::string& what) {
    const ChunkHash now = Hash();
    EXPECT_EQ(InCommon(now, before), 0u) << what;
    EXPECT_EQ(now, HashWithoutVectors(key, chunk.data())) << what;
  }
  const HashKey key = HashKey::Of(7);
  Bytes chunk = RandomBytes(1);
  const ChunkHash before = Hash();
};

TEST_F(ChunkHashTest, IsWhatItsDescriptionSaysWithAndWithoutVectors) {
  Bytes ones(kChunk, 0xFF), zeros(kChunk);
  for (const std::uint64_t seed : {7u, 8u}) {
    const HashKey other = HashKey::Of(seed);
    for (const Bytes& bytes : {chunk, ones, zeros, RandomBytes(seed)}) {
      const ChunkHash expected = Reference(other.tables(), bytes);
      EXPECT_EQ(HashOf(other, bytes.data()), expected);
      EXPECT_EQ(HashWithoutVectors(other, bytes.data()), expected);
    }
  }
}

TEST_F(ChunkHashTest, IsTheSameAgainAndWhereverTheChunkLies) {
  EXPECT_EQ(Hash(), before);
  for (const std::size_t offset : {1u, 4u, 8u, 17u}) {
    Bytes elsewhere(offset + kChunk);
    std::copy(chunk.begin(), chunk.end(), elsewhere.begin() + static_cast<std::ptrdiff_t>(offset));
    EXPECT_EQ(HashOf(key, elsewhere.data() + offset), before);
    EXPECT_EQ(HashWithoutVectors(key, elsewhere.data() + offset), before);
  }
}

TEST_F(ChunkHashTest, AFlippedBitChangesIt) {
  const auto flip = [&](std::size_t byte, unsigned bit) {
    chunk[byte] ^= static_cast<std::uint8_t>(1u << bit);
    ExpectOther("bit " + std::to_string(bit) + " of byte " + std::to_string(byte));
    chunk[byte] ^= static_cast<std::uint8_t>(1u << bit);
  };
  flip(0, 0);
  flip(kChunk - 1, 7);
  std::mt19937_64 random(3);
  for (unsigned place = 0; place < 16; ++place) {  // each byte of a unit, in rows and strips of all kinds
    for (const std::uint64_t row : {std::uint64_t{0}, std::uint64_t{511}, random() % 512})
      flip(4096 * row + 16 * (random() % 256) + place, static_cast<unsigned>(random() % 8));
    for (const std::uint64_t strip : {0u, 1u, 255u})
      flip(4096 * (random() % 512) + 16 * strip + place, static_cast<unsigned>(random() % 8));
  }
  EXPECT_EQ(Hash(), before);
}

// A hash that sums products could give these chunks the same value.
TEST_F(ChunkHashTest, SwappedPartsChangeIt) {
  const auto swap = [&](std::size_t a, std::size_t b, std::size_t bytes) {
    const auto swap_them = [&] {
      std::swap_ranges(chunk.begin() + static_cast<std::ptrdiff_t>(a),
                       chunk.begin() + static_cast<std::ptrdiff_t>(a + bytes),
                       chunk.begin() + static_cast<std::ptrdiff_t>(b));
    };
    swap_them();
    ExpectOther(std::to_string(bytes) + " bytes at " + std::to_string(a) + " and " + std::to_string(b));
    swap_them();
  };
  swap(0, 4, 4);                             // words of a pair
  swap(0, 8, 8);                             // pairs of a unit
  swap(16, 32, 16);                          // units of a row
  swap(48, 48 + 4096, 16);                   // units of a strip
  swap(0, 4096, 4096);                       // rows
  swap(kChunk - 4096, kChunk - 8192, 4096);  // the last two
  swap(0, std::size_t{64} << 10, 64 << 10);  // pages of 64 KiB
  swap(0, kChunk / 2, kChunk / 2);           // halves
  std::rotate(chunk.begin(), chunk.begin() + 4096, chunk.end());
  ExpectOther("all rows one further");
}

TEST_F(ChunkHashTest, EachKeyHasItsOwn) {
  std::set<std::array<std::uint32_t, 4>> hashes;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    hashes.insert(HashOf(HashKey::Of(seed), chunk.data()).words);
  for (int i = 0; i < 50; ++i) hashes.insert(HashOf(HashKey::Random(), chunk.data()).words);
  EXPECT_EQ(hashes.size(), 100u);
}

// Every part of a random key is random: a part that two keys share was not filled.
TEST_F(ChunkHashTest, ARandomKeyIsRandomInAllItsParts) {
  const HashKey one = HashKey::Random(), other = HashKey::Random();
  std::array<std::uint32_t, sizeof(HashKey::Tables) / 4> a, b;
  std::memcpy(a.data(), &one.tables(), sizeof a);
  std::memcpy(b.data(), &other.tables(), sizeof b);
  unsigned same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1U : 0U;
  EXPECT_LE(same, 2u) << "of " << a.size();
}

TEST_F(ChunkHashTest, AChunkOfZerosIsKnown) {
  for (const std::uint64_t seed : {7u, 8u, 9u}) {
    const HashKey any = HashKey::Of(seed);
    Bytes zeros(kChunk);
    EXPECT_TRUE(IsZero(any, HashOf(any, zeros.data())));
    EXPECT_FALSE(IsZero(any, HashOf(any, chunk.data())));
    for (const std::size_t at : {std::size_t{0}, std::size_t{4097}, kChunk - 1}) {
      zeros[at] = 1;
      EXPECT_FALSE(IsZero(any, HashOf(any, zeros.data()))) << at;
      zeros[at] = 0;
    }
  }
  EXPECT_FALSE(IsZero(HashKey::Of(1), HashKey::Of(2).of_zeros()));
}

// Chunks of few set bits, as data in use have them: each pair of them differs in all words.
TEST_F(ChunkHashTest, NearlyEmptyChunksAreAllDifferent) {
  std::array<std::set<std::uint32_t>, 4> words;
  unsigned chunks = 0;
  Bytes bytes(kChunk);
  for (std::size_t word = 0; word < 64; ++word) {
    for (const std::uint8_t value : std::array<std::uint8_t, 3>{1, 2, 128}) {
      const std::size_t at = word * 32'768 + word % 4 * 4;
      bytes[at] = value;
      const ChunkHash hash = HashOf(key, bytes.data());
      for (std::size_t i = 0; i < 4; ++i) words[i].insert(hash.words[i]);
      ++chunks;
      bytes[at] = 0;
    }
  }
  for (const auto& of_one : words) EXPECT_EQ(of_one.size(), chunks);
}

}  // namespace
}  // namespace gpuman::mover
