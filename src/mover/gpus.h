// The driver's side of moving: imports memory of other processes by descriptors, makes memory for them, and
// copies.
//
// A GPU gets a context when it is first needed; the context stays until the process ends. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "driver/cuda.h"
#include "mover/chunk_hash.h"

namespace gpuman::mover {

enum class Direction { kOut, kIn };

struct Copy {
  driver::abi::CUdeviceptr device;
  void* host;  // nullptr: zeros, only for kIn
  std::uint64_t bytes;
};

class Gpus;
class Hasher;

// Device memory mapped at addresses of this process; the destructor frees the memory and the addresses.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory() { Drop(); }

  // Whether the object holds memory.
  explicit operator bool() const { return gpus_ != nullptr; }
  driver::abi::CUdeviceptr address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  int gpu() const { return gpu_; }

 private:
  friend class Gpus;
  void Drop();

  const Gpus* gpus_ = nullptr;
  driver::abi::CUmemGenericAllocationHandle handle_ = 0;
  driver::abi::CUdeviceptr address_ = 0;
  std::uint64_t bytes_ = 0;
  int gpu_ = 0;
  bool mapped_ = false;
};

class Gpus {
 public:
  // `driver` is initialised and outlives this object.
  explicit Gpus(const driver::CudaDriver& driver);
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;
  ~Gpus();

  // Finds a GPU by UUID; empty: the first. kNotFound: there is no such GPU.
  base::Result<int> Find(const std::string& uuid) const;
  base::Result<std::string> UuidOf(int gpu) const;
  base::Result<std::uint64_t> MemoryOf(int gpu) const;  // bytes, of all programs
  // The node of host memory that is near the GPU; nullopt: it does not matter, or nobody knows.
  std::optional<int> HostNode(int gpu) const;
  // Makes the GPU's context current to this thread.
  base::Result<> Use(int gpu);

  // The driver has failed for good: no call of this process on one of its GPUs will succeed again.
  bool IsLost();

  // Imports memory that another process exported. The descriptor stays the caller's.
  base::Result<DeviceMemory> Import(int descriptor, std::uint64_t bytes);
  // New memory that another process can import. kExhausted: the GPU has no room.
  base::Result<DeviceMemory> Create(int gpu, std::uint64_t bytes);
  // For memory that Create made: the driver refuses to export imported memory (measured).
  base::Result<base::Fd> Export(const DeviceMemory& memory) const;

  // Whether `reader` can read the memory of `other` over NVLink or the bus, without a copy in host memory.
  bool Reaches(int reader, int other) const;
  // Lets another GPU read the memory too; that GPU gets a context in this process.
  base::Result<> LetRead(const DeviceMemory& memory, int reader);

  // Registers host memory, so that copies run at the bus's speed. Without it copies work too, only slower.
  bool Register(void* at, std::uint64_t bytes) const;
  void Unregister(void* at) const;

  // What hashes chunks of the GPU's memory; nullptr: this GPU cannot. The first call for a GPU creates the
  // hasher, which takes a while. Later calls return the same result.
  Hasher* HasherOf(int gpu);
  // Why HasherOf gave nullptr, by GPU. Does not wait for a call of HasherOf.
  std::map<int, base::Error> HasherErrors();
  // The key of all its hashes; another one in each object.
  const HashKey& hash_key() const { return hash_key_; }

 private:
  friend class DeviceMemory;
  friend class CopyStream;
  friend class Hasher;
  struct HasherEntry {
    std::once_flag made;
    base::Result<std::unique_ptr<Hasher>> hasher;
  };
  base::Result<> Map(DeviceMemory& memory);
  base::Result<> Allow(const DeviceMemory& memory, int gpu);
  HasherEntry& EntryOf(int gpu);

  const driver::CudaDriver& driver_;
  std::mutex mutex_;
  std::map<int, driver::abi::CUcontext> contexts_;
  const HashKey hash_key_ = HashKey::Random();
  std::mutex hashers_mutex_;
  std::map<int, HasherEntry> hashers_;
  std::map<int, base::Error> hasher_errors_;
};

}  // namespace gpuman::mover
