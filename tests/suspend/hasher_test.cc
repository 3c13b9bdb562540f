// A GPU hashes its memory as the processor does: on the simulated driver, and on a real one
// (tests/gpu/run.sh).
#include "mover/hasher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpus_fixture.h"
#include "inject.h"
#include "mover/test_bytes.h"

namespace gpuman::mover {
namespace {

namespace abi = driver::abi;
class HasherTest : public GpusTest {
 protected:
  // Memory of the kind that processes hand over, with these bytes.
  DeviceMemory OnGpu(const Bytes& bytes, int gpu = 0) {
    auto memory = gpus->Create(gpu, bytes.size());
    EXPECT_TRUE(memory) << memory.error().message;
    EXPECT_EQ(cuda->calls().cuMemcpyHtoD_v2(memory->address(), bytes.data(), bytes.size()),
              abi::CUDA_SUCCESS);
    return std::move(*memory);
  }
  std::unique_ptr<Hasher> HasherWith(const HashKey& key) {
    auto hasher = Hasher::Make(*gpus, 0, key);
    EXPECT_TRUE(hasher) << hasher.error().message;
    return hasher ? std::move(*hasher) : nullptr;
  }
  std::uint64_t Free() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cuda->calls().cuMemGetInfo_v2(&free, &total), abi::CUDA_SUCCESS);
    return free;
  }
};

TEST_F(HasherTest, TheKernelComputesWhatTheProcessorDoes) {
  Bytes single(kChunk);
  single[kChunk - 1] = 1;
  const std::vector<Bytes> contents{RandomBytes(1), Bytes(kChunk), Bytes(kChunk, 0xFF), single};
  std::vector<DeviceMemory> memory;
  std::vector<abi::CUdeviceptr> chunks;
  chunks.reserve(contents.size());
  for (const Bytes& bytes : contents) chunks.push_back(memory.emplace_back(OnGpu(bytes)).address());
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const HashKey key = HashKey::Of(seed);
    const auto hasher = HasherWith(key);
    ASSERT_TRUE(hasher);
    const auto hashes = hasher->Hash(chunks);
    ASSERT_TRUE(hashes) << hashes.error().message;
    ASSERT_EQ(hashes->size(), contents.size());
    for (std::size_t i = 0; i < contents.size(); ++i) {
      EXPECT_EQ((*hashes)[i], HashOf(key, contents[i].data())) << i;
      EXPECT_EQ(IsZero(key, (*hashes)[i]), i == 1) << i;
    }
  }
}

TEST_F(HasherTest, AChangedByteChangesTheHashOfItsChunkAlone) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher) << gpus->HasherErrors().at(0).message;
  const DeviceMemory memory = OnGpu(RandomBytes(4, 3 * kChunk));
  const std::vector<abi::CUdeviceptr> chunks{memory.address(), memory.address() + kChunk,
                                             memory.address() + 2 * kChunk};
  const auto before = hasher->Hash(chunks);
  ASSERT_TRUE(before);
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{5'000}, kChunk - 1}) {
    ASSERT_EQ(cuda->calls().cuMemsetD8_v2(chunks[1] + at, 0, 1), abi::CUDA_SUCCESS);
    const auto zero = hasher->Hash(chunks);
    ASSERT_EQ(cuda->calls().cuMemsetD8_v2(chunks[1] + at, 1, 1), abi::CUDA_SUCCESS);
    const auto one = hasher->Hash(chunks);
    ASSERT_TRUE(zero && one);
    EXPECT_NE((*zero)[1], (*one)[1]) << at;
    for (const std::size_t other : {0u, 2u}) {
      EXPECT_EQ((*zero)[other], (*before)[other]);
      EXPECT_EQ((*one)[other], (*before)[other]);
    }
  }
}

// More than one launch takes.
TEST_F(HasherTest, ManyChunksComeInTheOrderAsked) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  const Bytes bytes = RandomBytes(5, 4 * kChunk);
  const DeviceMemory memory = OnGpu(bytes);
  std::array<ChunkHash, 4> expected;
  for (std::size_t i = 0; i < 4; ++i) expected[i] = HashOf(gpus->hash_key(), bytes.data() + i * kChunk);
  std::mt19937_64 random(6);
  std::vector<std::size_t> which(515);
  std::vector<abi::CUdeviceptr> chunks;
  chunks.reserve(which.size());
  for (auto& one : which) chunks.push_back(memory.address() + (one = random() % 4) * kChunk);
  const auto hashes = hasher->Hash(chunks);
  ASSERT_TRUE(hashes) << hashes.error().message;
  ASSERT_EQ(hashes->size(), chunks.size());
  for (std::size_t i = 0; i < which.size(); ++i) ASSERT_EQ((*hashes)[i], expected[which[i]]) << i;
}

TEST_F(HasherTest, ChunksMayLieAtAnyMultipleOf16) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  const Bytes bytes = RandomBytes(7, 2 * kChunk);
  const DeviceMemory memory = OnGpu(bytes);
  const std::vector<abi::CUdeviceptr> aligned{memory.address() + 16},
      askew{memory.address(), memory.address() + 8};
  const auto hashes = hasher->Hash(aligned);
  ASSERT_TRUE(hashes);
  EXPECT_EQ((*hashes)[0], HashOf(gpus->hash_key(), bytes.data() + 16));
  EXPECT_EQ(hasher->Hash(askew).error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_TRUE(hasher->Hash(aligned)) << "the refusal has cost nothing";
}

TEST_F(HasherTest, NoChunksHaveNoHashes) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  const auto hashes = hasher->Hash({});
  ASSERT_TRUE(hashes);
  EXPECT_TRUE(hashes->empty());
}

TEST_F(HasherTest, ThreadsHashAtTheSameTime) {
  const Bytes bytes = RandomBytes(8, 4 * kChunk);
  const DeviceMemory memory = OnGpu(bytes);
  const auto hash = [&](std::uint64_t seed) {
    Hasher* const hasher = gpus->HasherOf(0);  // also made at the same time
    ASSERT_TRUE(hasher);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 20; ++round) {
      std::vector<abi::CUdeviceptr> chunks;
      std::vector<ChunkHash> expected;
      const std::size_t count = 1 + random() % 5;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t at = random() % 4 * kChunk;
        chunks.push_back(memory.address() + at);
        expected.push_back(HashOf(gpus->hash_key(), bytes.data() + at));
      }
      const auto hashes = hasher->Hash(chunks);
      ASSERT_TRUE(hashes) << hashes.error().message;
      ASSERT_EQ(*hashes, expected) << round;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 3; ++seed) threads.emplace_back(hash, seed);
  for (auto& thread : threads) thread.join();
}

TEST_F(HasherTest, HashesMayBePendingAndAwaitedInAnyOrderOrNotAtAll) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  const Bytes bytes = RandomBytes(9, 3 * kChunk);
  std::vector<Hasher::Pending> pending;
  {
    const DeviceMemory memory = OnGpu(bytes);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<abi::CUdeviceptr> chunk{memory.address() + i * kChunk};
      auto begun = hasher->Begin(chunk);
      ASSERT_TRUE(begun);
      pending.push_back(std::move(*begun));
    }
    for (const std::size_t i : {2u, 0u}) {
      const auto hashes = hasher->Await(std::move(pending[i]));
      ASSERT_TRUE(hashes);
      EXPECT_EQ(*hashes, std::vector{HashOf(gpus->hash_key(), bytes.data() + i * kChunk)});
    }
    pending.clear();  // the last one's chunk is about to be unmapped
  }
  EXPECT_FALSE(gpus->IsLost());
  EXPECT_EQ(cuda->calls().cuCtxSynchronize(), abi::CUDA_SUCCESS);
}

TEST_F(HasherTest, TooManyPendingAreRefusedUntilOneIsOver) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  const DeviceMemory memory = OnGpu(RandomBytes(10));
  const std::vector<abi::CUdeviceptr> chunk{memory.address()};
  std::vector<Hasher::Pending> pending;
  for (std::size_t i = 0; i < Hasher::kSlots; ++i) {
    auto begun = hasher->Begin(i == 0 ? chunk : std::vector<abi::CUdeviceptr>());
    ASSERT_TRUE(begun);
    pending.push_back(std::move(*begun));
  }
  EXPECT_EQ(hasher->Begin(chunk).error().code, base::ErrorCode::kExhausted);
  EXPECT_TRUE(hasher->Await(std::move(pending[0])));
  EXPECT_TRUE(hasher->Hash(chunk));
}

// What only the simulated driver does on demand, or tells exactly.
class HasherFaultsTest : public HasherTest {
 protected:
  void SetUp() override {
    if (!std::getenv("GPUMAN_SIM_DIR")) GTEST_SKIP() << "needs gpuman-sim";
    ASSERT_NO_FATAL_FAILURE(HasherTest::SetUp());
  }
  void TearDown() override {
    if (cuda) Inject("clear");
  }
  void ExpectMemoryOf(int gpu) {
    ASSERT_TRUE(gpus->Use(gpu));
    const Bytes bytes = RandomBytes(11);
    const DeviceMemory memory = OnGpu(bytes, gpu);
    Bytes back(kChunk);
    EXPECT_EQ(cuda->calls().cuMemcpyDtoH_v2(back.data(), memory.address(), kChunk), abi::CUDA_SUCCESS);
    EXPECT_EQ(back, bytes);
    EXPECT_FALSE(gpus->IsLost());
  }
};

TEST_F(HasherFaultsTest, AGpuThatLoadsNoKernelHasNoneAndAllElseWorks) {
  Inject("module-fail --gpu 1");
  EXPECT_EQ(gpus->HasherOf(1), nullptr);
  const auto errors = gpus->HasherErrors();
  ASSERT_TRUE(errors.contains(1));
  EXPECT_NE(errors.at(1).message.find("cuModuleLoadData"), std::string::npos) << errors.at(1).message;
  ExpectMemoryOf(1);
  ASSERT_TRUE(gpus->HasherOf(0)) << "another GPU has its own";
  Inject("clear");
  EXPECT_EQ(gpus->HasherOf(1), nullptr) << "it is not asked again";
}

TEST_F(HasherFaultsTest, AGpuWithoutRoomForItHasNone) {
  const std::uint64_t free = Free();
  Inject("alloc-fail --nth 1");
  EXPECT_EQ(gpus->HasherOf(0), nullptr);
  ASSERT_TRUE(gpus->HasherErrors().contains(0));
  EXPECT_EQ(gpus->HasherErrors().at(0).code, base::ErrorCode::kExhausted);
  EXPECT_EQ(Free(), free);
  ExpectMemoryOf(0);
}

TEST_F(HasherFaultsTest, ItTakesLittleOfTheGpuAndGivesItBack) {
  const std::uint64_t free = Free();
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  EXPECT_EQ(gpus->HasherOf(0), hasher);
  EXPECT_TRUE(gpus->HasherErrors().empty());
  EXPECT_LE(free - Free(), std::uint64_t{2} << 20);
  gpus.reset();
  EXPECT_EQ(Free(), free);
}

// Last, as it costs this process its driver. The caller learns it by the result, and no call waits for ever.
TEST_F(HasherFaultsTest, ALostContextIsAnError) {
  Hasher* const hasher = gpus->HasherOf(0);
  ASSERT_TRUE(hasher);
  const DeviceMemory memory = OnGpu(RandomBytes(12));
  const std::vector<abi::CUdeviceptr> chunk{memory.address()};
  auto pending = hasher->Begin(chunk);
  ASSERT_TRUE(pending);
  Inject("contexts-lost --pid " + std::to_string(::getpid()));
  EXPECT_FALSE(hasher->Hash(chunk));
  EXPECT_FALSE(hasher->Await(std::move(*pending)));
}

}  // namespace
}  // namespace gpuman::mover
