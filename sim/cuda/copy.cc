#include "sim/cuda/copy.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "sim/cuda/memory.h"
#include "sim/state/lifecycle.h"

namespace gpuman::sim::cuda {
namespace {

using Location = CopySide::Location;
constexpr std::uint64_t kChunk = 4 * kMiB;
constexpr std::uint64_t kPage = 4096;

void* Pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Occupies the bus of a device for some bytes, and sleeps until they are across. All processes share the bus.
void Pace(Device& device, bool to_device, std::uint64_t bytes) {
  const std::uint64_t speed = to_device ? device.info().bus_to_device : device.info().bus_to_host;
  if (speed == 0) return;
  const auto takes =
      static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(speed));
  Word64& until = device.dynamic().bus_busy_until_ns[to_device ? 0 : 1];
  std::uint64_t before = until.load(), end = 0;
  do {
    end = std::max(before, MonotonicNs()) + takes;
  } while (!until.compare_exchange_weak(before, end));
  timespec deadline{};
  deadline.tv_sec = static_cast<time_t>(end / 1'000'000'000);
  deadline.tv_nsec = static_cast<long>(end % 1'000'000'000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

// Gives device memory that is about to be written whole huge pages, as far as nothing is there yet: each
// small page would be a fault of this process, and later of each other that maps it.
void MakeHugePages(std::uint64_t address, std::uint64_t size) {
  constexpr int kPopulateWrite = 23, kCollapse = 25;  // MADV_POPULATE_WRITE, MADV_COLLAPSE; Linux 5.14, 6.1
  for (std::uint64_t at = RoundUp(address, kDeviceStep); at + kDeviceStep <= address + size;
       at += kDeviceStep) {
    unsigned char there = 1;
    if (mincore(Pointer(at), kPage, &there) != 0 || (there & 1) != 0) continue;
    if (madvise(Pointer(at), kPage, kPopulateWrite) != 0 || madvise(Pointer(at), kDeviceStep, kCollapse) != 0)
      return;
  }
}

// Copies between memory of the program's and the file behind device memory. The kernel copies, so that a
// wrong pointer of the program is an error and not a crash.
bool CopyThroughFile(int file, std::uint64_t offset, std::uint64_t host, std::uint64_t size, bool to_device) {
  while (size > 0) {
    const auto at = static_cast<off_t>(offset);
    const ssize_t moved =
        to_device ? pwrite(file, Pointer(host), size, at) : pread(file, Pointer(host), size, at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    offset += static_cast<std::uint64_t>(moved);
    host += static_cast<std::uint64_t>(moved);
    size -= static_cast<std::uint64_t>(moved);
  }
  return true;
}

// The same of two places in this process: for host memory that the driver knows.
bool CopyThroughKernel(std::uint64_t destination, std::uint64_t source, std::uint64_t size,
                       bool host_is_source) {
  iovec local{Pointer(host_is_source ? destination : source), size};
  iovec remote{Pointer(host_is_source ? source : destination), size};
  while (size > 0) {
    const ssize_t moved = host_is_source ? process_vm_readv(getpid(), &local, 1, &remote, 1, 0)
                                         : process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    if (moved < 0 && (errno == ENOSYS || errno == EPERM)) {  // in a sandbox: trust the pointer
      std::memcpy(host_is_source ? local.iov_base : remote.iov_base,
                  host_is_source ? remote.iov_base : local.iov_base, size);
      return true;
    }
    if (moved <= 0) return false;
    size -= static_cast<std::uint64_t>(moved);
    for (iovec* side : {&local, &remote}) {
      side->iov_base = static_cast<char*>(side->iov_base) + moved;
      side->iov_len = size;
    }
  }
  return true;
}

bool StillThere(Driver& driver, const CopySide& side, std::uint64_t address, std::uint64_t size, bool write) {
  if (side.location == Location::kPageableHost) return true;
  return driver.memory.Check(address, size, write) == AddressSpace::Lookup::kGood;
}

// Copies one piece of a row; touches memory.
CUresult MovePiece(Driver& driver, Device& device, const CopySide& source, std::uint64_t from,
                   const CopySide& destination, std::uint64_t to, std::uint64_t size) {
  const std::shared_lock execution(driver.execution);
  if (!StillThere(driver, source, from, size, false) || !StillThere(driver, destination, to, size, true)) {
    driver.SetFault(CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (destination.location == Location::kDevice) MoveManaged(driver, to, size, &device);
  const bool from_pageable = source.location == Location::kPageableHost,
             to_pageable = destination.location == Location::kPageableHost;
  if (destination.location == Location::kDevice) MakeHugePages(to, size);
  if (from_pageable != to_pageable) {
    const std::uint64_t known = from_pageable ? to : from;
    const auto block = driver.memory.FindBlock(known);
    if (block && block->physical != nullptr && block->end - known >= size) {
      const std::uint64_t offset =
          block->physical->offset() + block->physical_offset + (known - block->begin);
      return CopyThroughFile(block->physical->descriptor(), offset, from_pageable ? from : to, size,
                             from_pageable)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (!from_pageable && !to_pageable) {
    std::memmove(Pointer(to), Pointer(from), size);
    return CUDA_SUCCESS;
  }
  return CopyThroughKernel(to, from, size, from_pageable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult RunCopy(Driver& driver, Device& device, const CopySide& source, const CopySide& destination,
                 const CopyBox& box) {
  const bool from_device = source.location == Location::kDevice,
             to_device = destination.location == Location::kDevice;
  std::uint64_t unpaced = 0;
  const auto pace = [&](std::uint64_t bytes, std::uint64_t enough) {
    unpaced += bytes;
    if (from_device == to_device || unpaced < enough) return;
    Pace(device, to_device, unpaced);
    unpaced = 0;
  };
  for (std::uint64_t layer = 0; layer < box.depth; ++layer) {
    for (std::uint64_t row = 0; row < box.height; ++row) {
      const std::uint64_t from = source.address + layer * source.slice + row * source.pitch;
      const std::uint64_t to = destination.address + layer * destination.slice + row * destination.pitch;
      for (std::uint64_t done = 0; done < box.width; done += kChunk) {
        const std::uint64_t size = std::min(kChunk, box.width - done);
        const CUresult moved = MovePiece(driver, device, source, from + done, destination, to + done, size);
        if (moved != CUDA_SUCCESS) return moved;
        pace(size, kChunk);
      }
    }
  }
  pace(0, 1);
  return CUDA_SUCCESS;
}

void FillRow(std::uint64_t address, const Fill& fill) {
  switch (fill.element) {
    case 1:
      std::memset(Pointer(address), static_cast<int>(fill.value & 0xff), fill.count);
      break;
    case 2:
      std::fill_n(static_cast<std::uint16_t*>(Pointer(address)), fill.count,
                  static_cast<std::uint16_t>(fill.value));
      break;
    default:
      std::fill_n(static_cast<std::uint32_t*>(Pointer(address)), fill.count, fill.value);
      break;
  }
}

// Zeroing a large range frees its pages instead of writing them, so that it costs the host no memory.
void FillZero(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = RoundUp(address, kPage), end = (address + bytes) / kPage * kPage;
  if (begin >= end || madvise(Pointer(begin), end - begin, MADV_REMOVE) != 0) {
    std::memset(Pointer(address), 0, bytes);
    return;
  }
  std::memset(Pointer(address), 0, begin - address);
  std::memset(Pointer(end), 0, address + bytes - end);
}

void RunFill(Driver& driver, Device& device, const Fill& fill) {
  const std::uint64_t bytes = fill.count * fill.element;
  for (std::uint64_t row = 0; row < fill.height; ++row) {
    const std::uint64_t address = fill.address + row * fill.pitch;
    const std::shared_lock execution(driver.execution);
    if (driver.memory.Check(address, bytes, true) != AddressSpace::Lookup::kGood) {
      driver.SetFault(CUDA_ERROR_ILLEGAL_ADDRESS);
      return;
    }
    MoveManaged(driver, address, bytes, &device);
    if (fill.value == 0 && bytes >= kDeviceStep) {
      FillZero(address, bytes);
    } else {
      FillRow(address, fill);
    }
  }
}

// The bytes from the first to the last of a box; false on overflow.
bool Extent(const CopySide& side, const CopyBox& box, std::uint64_t& bytes) {
  std::uint64_t layers = 0, rows = 0;
  return !__builtin_mul_overflow(box.depth - 1, side.slice, &layers) &&
         !__builtin_mul_overflow(box.height - 1, side.pitch, &rows) &&
         !__builtin_add_overflow(layers, rows, &bytes) && !__builtin_add_overflow(bytes, box.width, &bytes);
}

}  // namespace

CUresult ResolveSide(Driver& driver, CopySide& side, const CopyBox& box, bool write, bool device_only) {
  std::uint64_t bytes = 0;
  if (!Extent(side, box, bytes)) return CUDA_ERROR_INVALID_VALUE;
  switch (driver.memory.Check(side.address, bytes, write)) {
    case AddressSpace::Lookup::kGood: {
      const auto allocation = driver.memory.FindAllocation(side.address);
      side.location = allocation && IsHostKind(allocation->kind) ? Location::kPinnedHost : Location::kDevice;
      return CUDA_SUCCESS;
    }
    case AddressSpace::Lookup::kUnknown:
      side.location = Location::kPageableHost;
      return device_only || side.address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case AddressSpace::Lookup::kBad:
      break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// The error of an injected fault. Small copies, as a program's own of its results, are not struck.
CUresult CopyFault(Driver& driver, Device& device, const CopySide& source, const CopySide& destination,
                   const CopyBox& box) {
  constexpr std::size_t kSmall = 4096;
  const bool locked =
      source.location == Location::kPinnedHost || destination.location == Location::kPinnedHost;
  const bool crosses = source.location == Location::kDevice || destination.location == Location::kDevice;
  Faults& faults = device.state().shared().faults;
  if (!locked || !crosses || box.width * box.height * box.depth < kSmall) return CUDA_SUCCESS;
  if (!FaultStrikes(faults.copy_fails_in[device.gpu()])) return CUDA_SUCCESS;
  if (faults.copy_fails_for_good[device.gpu()].load() == 0) return CUDA_ERROR_UNKNOWN;
  driver.SetFault(CUDA_ERROR_ECC_UNCORRECTABLE);
  return CUDA_ERROR_ECC_UNCORRECTABLE;
}

CUresult SubmitCopy(const Call& call, const StreamReference& stream, const CopySide& source,
                    const CopySide& destination, const CopyBox& box, bool synchronous) {
  Driver& driver = call.driver();
  Device& device = stream.context->device();
  if (const CUresult fault = CopyFault(driver, device, source, destination, box); fault != CUDA_SUCCESS)
    return fault;
  auto run = [&driver, &device, source, destination, box] {
    if (driver.fault() != CUDA_SUCCESS) return driver.fault();
    return RunCopy(driver, device, source, destination, box);
  };
  const bool pageable =
      source.location == Location::kPageableHost || destination.location == Location::kPageableHost;
  const bool capturing = stream.context->CaptureOf(stream.stream) != nullptr;
  if (synchronous || (pageable && !capturing))
    return stream.context->EnqueueAndWait(stream.stream, std::move(run));
  return stream.context->Enqueue(stream.stream, CU_GRAPH_NODE_TYPE_MEMCPY, [run = std::move(run)] { run(); });
}

CUresult SubmitFill(const Call& call, const StreamReference& stream, const Fill& fill, bool synchronous) {
  if (fill.count == 0 || fill.height == 0) return CUDA_SUCCESS;
  std::uint64_t bytes = 0;
  if (fill.address % fill.element != 0 || fill.pitch % fill.element != 0 ||
      __builtin_mul_overflow(fill.count, std::uint64_t{fill.element}, &bytes) ||
      (fill.height > 1 && fill.pitch < bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Driver& driver = call.driver();
  CopySide side{.address = fill.address, .pitch = fill.pitch};
  const CUresult placed = ResolveSide(driver, side, {.width = bytes, .height = fill.height}, true, true);
  if (placed != CUDA_SUCCESS) return placed;
  auto run = [&driver, &device = stream.context->device(), fill] {
    if (driver.fault() == CUDA_SUCCESS) RunFill(driver, device, fill);
    return driver.fault();
  };
  if (synchronous) return stream.context->EnqueueAndWait(stream.stream, std::move(run));
  return stream.context->Enqueue(stream.stream, CU_GRAPH_NODE_TYPE_MEMSET, [run = std::move(run)] { run(); });
}

}  // namespace gpuman::sim::cuda
