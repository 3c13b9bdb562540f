#include "sim/cuda/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kHeapBytes = std::uint64_t{1} << 45;
constexpr char kSharedFile[] = "gpuman-sim-shared-memory-of-";  // followed by the GPU's index in the state
constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

int MakeFile(std::uint64_t size, const char* name = "gpuman-sim-device-memory") {
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

std::uint64_t InodeOf(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

void* Pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Heap::Heap() : descriptor_(MakeFile(kHeapBytes)) { free_.Give(0, kHeapBytes); }

Heap::~Heap() { close(descriptor_); }

std::uint64_t Heap::Take(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  return free_.Take(size).value_or(0);  // the file is far larger than any device
}

void Heap::Give(std::uint64_t offset, std::uint64_t size) {
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(size));
  const std::lock_guard lock(mutex_);
  free_.Give(offset, size);
}

std::shared_ptr<Physical> Physical::Allocate(Heap& heap, Device* device, std::uint64_t size,
                                             Sharing sharing) {
  if (device != nullptr && !device->Reserve(size)) return nullptr;
  std::shared_ptr<Physical> physical(new Physical);
  physical->device_ = device;
  physical->accounted_ = device != nullptr;
  physical->size_ = size;
  if (sharing == Sharing::kShareable) {
    physical->descriptor_ = MakeFile(size, (kSharedFile + std::to_string(device->gpu())).c_str());
    if (physical->descriptor_ < 0) return nullptr;
  } else {
    physical->heap_ = &heap;
    physical->descriptor_ = heap.descriptor();
    physical->offset_ = heap.Take(size);
  }
  return physical;
}

std::shared_ptr<Physical> Physical::Import(Device* device, int descriptor, std::uint64_t offset,
                                           std::uint64_t size, bool counted) {
  std::shared_ptr<Physical> physical(new Physical);
  physical->device_ = device;
  physical->imported_ = true;
  physical->descriptor_ = descriptor;
  physical->offset_ = offset;
  physical->size_ = size;
  if (counted) physical->Share();  // before it is accounted: imported memory needs no room
  physical->accounted_ = counted && device->Reserve(size);
  return physical;
}

Physical::~Physical() {
  if (accounted_) device_->Return(size_);
  if (shared_.load()) device_->SharedEnded(InodeOf(descriptor_), imported_);
  if (heap_ != nullptr) {
    heap_->Give(offset_, size_);
  } else if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

void Physical::Share() {
  if (!shared_.exchange(true)) device_->SharedBegan(InodeOf(descriptor_), size_, imported_);
}

std::optional<unsigned> GpuOfSharedFile(int descriptor) {
  std::array<char, 128> name{};
  const std::string own = "/proc/self/fd/" + std::to_string(descriptor);
  if (readlink(own.c_str(), name.data(), name.size() - 1) <= 0) return std::nullopt;
  const std::string_view text(name.data());
  const std::string before = std::string("/memfd:") + kSharedFile;
  if (!text.starts_with(before)) return std::nullopt;
  return static_cast<unsigned>(std::strtoul(name.data() + before.size(), nullptr, 10));
}

std::uint64_t ReserveAddresses(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint) {
  if (hint != 0 && hint % alignment == 0) {
    void* at = mmap(Pointer(hint), size, PROT_NONE, kReserve | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == Pointer(hint)) return hint;
    if (at != MAP_FAILED) munmap(at, size);
  }
  if (size > std::uint64_t{1} << 46) return 0;
  void* const at = mmap(nullptr, size + alignment, PROT_NONE, kReserve, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uint64_t>(at);
  const std::uint64_t aligned = RoundUp(begin, alignment);
  if (aligned > begin) munmap(at, aligned - begin);
  const std::uint64_t after = begin + alignment - aligned;
  if (after > 0) munmap(Pointer(aligned + size), after);
  return aligned;
}

void FreeAddresses(std::uint64_t address, std::uint64_t size) { munmap(Pointer(address), size); }

bool MapAt(std::uint64_t address, std::uint64_t size, const Physical& physical, std::uint64_t offset) {
  void* const at = mmap(Pointer(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        physical.descriptor(), static_cast<off_t>(physical.offset() + offset));
  if (at == MAP_FAILED) return false;
  madvise(at, size, MADV_DONTFORK);  // a child of fork has no device memory
  return true;
}

void UnmapAt(std::uint64_t address, std::uint64_t size) {
  std::ignore = mmap(Pointer(address), size, PROT_NONE, kReserve | MAP_FIXED, -1, 0);
}

}  // namespace gpuman::sim::cuda
