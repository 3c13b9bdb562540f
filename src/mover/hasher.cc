#include "mover/hasher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "mover/chunk_hash_ptx.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Result;
namespace abi = driver::abi;

// The function's name (for errors) and its pointer.
#define GPUMAN_CALL(name, symbol) name, gpus_.driver_.calls().symbol

namespace {

// chunk_hash.ptx relies on these.
static_assert(offsetof(HashKey::Tables, nh) == 16'384 && sizeof(HashKey::Tables::nh) >= 4 * (2'048 + 12));
static_assert(HashKey::kRowBytes == 4'096 && HashKey::kRows == 4 * 128);
constexpr unsigned kThreads = HashKey::kStrips;

constexpr std::uint64_t kTablesRoom = std::uint64_t{32} << 10;
static_assert(sizeof(HashKey::Tables) <= kTablesRoom);

// All of host and device memory has one set of addresses (unified addressing).
template <typename T>
abi::CUdeviceptr AddressOf(T* at) {
  return reinterpret_cast<abi::CUdeviceptr>(at);
}

}  // namespace

Result<std::unique_ptr<Hasher>> Hasher::Make(Gpus& gpus, int gpu, const HashKey& key) {
  GPUMAN_TRY(gpus.Use(gpu));
  std::unique_ptr<Hasher> hasher(new Hasher(gpus, gpu, key));
  GPUMAN_TRY(hasher->Load());
  GPUMAN_TRY(hasher->Test());
  return hasher;
}

Result<> Hasher::Load() {
  const auto& driver = gpus_.driver_;
  constexpr std::uint64_t kSumsOfSlot = kTogether * sizeof(Sums);
  static_assert(kTablesRoom + kSlots * kSumsOfSlot <= kChunk);
  GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuModuleLoadData", cuModuleLoadData), &module_, kChunkHashKernels));
  GPUMAN_TRY(
      driver.Invoke(GPUMAN_CALL("cuModuleGetFunction", cuModuleGetFunction), &hash_, module_, "gpuman_hash"));
  GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuModuleGetFunction", cuModuleGetFunction), &hand_over_, module_,
                           "gpuman_hand_over"));
  GPUMAN_TRY(
      driver.Invoke(GPUMAN_CALL("cuMemAlloc", cuMemAlloc_v2), &scratch_, kTablesRoom + kSlots * kSumsOfSlot));
  for (std::size_t i = 0; i < kSlots; ++i) slots_[i].sums = scratch_ + kTablesRoom + i * kSumsOfSlot;
  return driver.Invoke(GPUMAN_CALL("cuMemcpyHtoD", cuMemcpyHtoD_v2), scratch_, &key_.tables(),
                       sizeof(HashKey::Tables));
}

// Hashes two overlapping chunks of host memory, because the GPU may have no free memory.
Result<> Hasher::Test() {
  constexpr std::uint64_t kFurther = 4'096 + 16;
  void* at = nullptr;
  GPUMAN_TRY(gpus_.driver_.Invoke(GPUMAN_CALL("cuMemHostAlloc", cuMemHostAlloc), &at, kChunk + kFurther,
                                  abi::CU_MEMHOSTALLOC_DEVICEMAP));
  auto* const bytes = static_cast<std::uint8_t*>(at);
  for (std::uint64_t offset = 0; offset < kChunk + kFurther; offset += 8) {
    const std::uint64_t word = base::SplitMix64(offset);
    std::memcpy(bytes + offset, &word, sizeof word);
  }
  const std::array<const std::uint8_t*, 2> chunks{bytes, bytes + kFurther};
  const std::array<abi::CUdeviceptr, 2> addresses{AddressOf(chunks[0]), AddressOf(chunks[1])};
  const auto hashes = Hash(addresses);
  const bool right = hashes && std::equal(chunks.begin(), chunks.end(), hashes->begin(), hashes->end(),
                                          [this](const std::uint8_t* chunk, const ChunkHash& hash) {
                                            return hash == HashOf(key_, chunk);
                                          });
  (void)gpus_.driver_.calls().cuMemFreeHost(at);
  if (!hashes) return Fail(hashes.error());
  if (right) return {};
  return Fail(ErrorCode::kInternal, fmt::format("GPU {} computes another hash than the processor", gpu_));
}

Hasher::~Hasher() {
  const auto& cu = gpus_.driver_.calls();
  if (!gpus_.Use(gpu_)) return;
  for (const Slot& slot : slots_)
    if (slot.stream) (void)cu.cuStreamDestroy_v2(slot.stream);
  for (void* const at : pinned_) (void)cu.cuMemFreeHost(at);
  if (scratch_ != 0) (void)cu.cuMemFree_v2(scratch_);
  if (module_) (void)cu.cuModuleUnload(module_);
}

Result<std::vector<ChunkHash>> Hasher::Hash(std::span<const abi::CUdeviceptr> chunks) {
  GPUMAN_ASSIGN(Pending pending, Begin(chunks));
  return Await(std::move(pending));
}

Result<Hasher::Pending> Hasher::Begin(std::span<const abi::CUdeviceptr> chunks) {
  for (const auto chunk : chunks) {
    if (chunk % HashKey::kUnitBytes != 0)  // would be the end of the context
      return Fail(ErrorCode::kInvalidArgument, fmt::format("a chunk at {:#x} is not aligned", chunk));
  }
  GPUMAN_TRY(gpus_.Use(gpu_));
  GPUMAN_ASSIGN(Pending pending, Take(chunks.size()));
  for (Group* const group : pending.slot_->groups) {
    if (chunks.empty()) break;
    const auto now = chunks.first(std::min(chunks.size(), kTogether));
    GPUMAN_TRY(Launch(*pending.slot_, *group, now));
    chunks = chunks.subspan(now.size());
  }
  return pending;
}

Result<Hasher::Pending> Hasher::Take(std::size_t chunks) {
  std::unique_lock lock(mutex_);
  const auto found = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken; });
  if (found == slots_.end()) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("GPU {} is hashing {} sets of chunks already", gpu_, kSlots));
  }
  found->taken = true;
  lock.unlock();
  Pending pending(*this, *found, chunks);
  if (!found->stream) {
    GPUMAN_TRY(gpus_.driver_.Invoke(GPUMAN_CALL("cuStreamCreate", cuStreamCreate), &found->stream,
                                    static_cast<unsigned>(abi::CU_STREAM_NON_BLOCKING)));
  }
  GPUMAN_TRY(MakeGroups(*found, (chunks + kTogether - 1) / kTogether));
  return pending;
}

// To free page-locked memory the driver waits for all work of the GPU: it stays until the end.
Result<> Hasher::MakeGroups(Slot& slot, std::size_t count) {
  if (slot.groups.size() >= count) return {};
  const std::size_t missing = count - slot.groups.size();
  void* at = nullptr;
  GPUMAN_TRY(gpus_.driver_.Invoke(GPUMAN_CALL("cuMemHostAlloc", cuMemHostAlloc), &at, missing * sizeof(Group),
                                  abi::CU_MEMHOSTALLOC_DEVICEMAP));
  {
    const std::lock_guard lock(mutex_);
    pinned_.push_back(at);
  }
  auto* const groups = new (at) Group[missing];
  for (std::size_t i = 0; i < missing; ++i) slot.groups.push_back(groups + i);
  return {};
}

Result<> Hasher::Launch(const Slot& slot, Group& group, std::span<const abi::CUdeviceptr> chunks) {
  const auto& driver = gpus_.driver_;
  std::copy(chunks.begin(), chunks.end(), group.chunks.begin());
  const auto blocks = static_cast<unsigned>(chunks.size());
  GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuMemsetD32Async", cuMemsetD32Async), slot.sums, 0u,
                           chunks.size() * sizeof(Sums) / 4, slot.stream));
  abi::CUdeviceptr addresses = AddressOf(group.chunks.data()), tables = scratch_, sums = slot.sums,
                   to = AddressOf(group.sums.data());
  std::array<void*, 3> of_hash{&addresses, &tables, &sums};
  GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuLaunchKernel", cuLaunchKernel), hash_, blocks, 1u, 1u, kThreads, 1u,
                           1u, 0u, slot.stream, of_hash.data(), nullptr));
  std::array<void*, 2> of_hand_over{&sums, &to};
  return driver.Invoke(GPUMAN_CALL("cuLaunchKernel", cuLaunchKernel), hand_over_, blocks, 1u, 1u,
                       static_cast<unsigned>(HashKey::kSums), 1u, 1u, 0u, slot.stream, of_hand_over.data(),
                       nullptr);
}

Result<std::vector<ChunkHash>> Hasher::Await(Pending pending) {
  constexpr std::chrono::microseconds kPollInterval{50};
  const Slot& slot = *pending.slot_;
  GPUMAN_TRY(gpus_.Use(gpu_));
  const auto& cu = gpus_.driver_.calls();
  // cuStreamSynchronize would keep a processor busy.
  auto says = cu.cuStreamQuery(slot.stream);
  for (; says == abi::CUDA_ERROR_NOT_READY; says = cu.cuStreamQuery(slot.stream))
    std::this_thread::sleep_for(kPollInterval);
  GPUMAN_TRY(driver::CudaDriver::Check("cuStreamQuery", says));
  std::vector<ChunkHash> hashes(pending.chunks_);
  for (std::size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = HashFrom(key_, slot.groups[i / kTogether]->sums[i % kTogether]);
  return hashes;
}

void Hasher::Release(Slot& slot) {
  if (slot.stream && gpus_.Use(gpu_)) (void)gpus_.driver_.calls().cuStreamSynchronize(slot.stream);
  const std::lock_guard lock(mutex_);
  slot.taken = false;
}

Hasher::Pending& Hasher::Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  Drop();
  hasher_ = std::exchange(other.hasher_, nullptr);
  slot_ = std::exchange(other.slot_, nullptr);
  chunks_ = std::exchange(other.chunks_, 0);
  return *this;
}

void Hasher::Pending::Drop() {
  if (hasher_) hasher_->Release(*slot_);
  hasher_ = nullptr;
}

}  // namespace gpuman::mover

#undef GPUMAN_CALL
