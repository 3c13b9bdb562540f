// One process's use of one device: context, kernels, stream. Lives on one thread; the context is current on
// it. The destructor destroys the context and with it all memory that is left on the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "driver/cuda.h"

namespace gpuman::load {

// Rows of 64-bit words in device memory; plain memory is one row. Units: words, rows, bytes.
struct Region {
  driver::abi::CUdeviceptr base = 0;
  std::uint64_t width = 0;
  std::uint64_t rows = 1;
  std::uint64_t pitch = 0;
};

struct Mismatches {
  std::uint64_t words = 0;
  std::uint64_t first = UINT64_MAX;  // index of the first word that differs
};

class Session {
 public:
  // `checks`: the caller will call Check; takes 16 bytes of device memory now, so that a full device can be
  // checked.
  static base::Result<std::unique_ptr<Session>> Open(const driver::CudaDriver& cuda, int ordinal,
                                                     bool checks);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const driver::CudaDriver& cuda() const { return cuda_; }
  const driver::CudaCalls& calls() const { return cuda_.calls(); }
  const driver::CudaDevice& device() const { return device_; }
  driver::abi::CUcontext context() const { return context_; }
  driver::abi::CUstream stream() const { return stream_; }
  base::Result<base::Bytes> Free() const;
  // Plain device memory that the work on the stream shares; the first call allocates it and sets its size.
  base::Result<driver::abi::CUdeviceptr> Window(base::Bytes size);

  // These queue work on the stream.
  base::Result<> Fill(const Region& region, std::uint64_t seed);
  base::Result<> Add(const Region& region);
  base::Result<> Spin(std::chrono::nanoseconds time);
  base::Result<> Synchronize();
  // Waits for the result.
  base::Result<Mismatches> Check(const Region& region, std::uint64_t seed, std::uint64_t added);

 private:
  Session(const driver::CudaDriver& cuda, driver::CudaDevice device)
      : cuda_(cuda), device_(std::move(device)) {}
  base::Result<> Start(bool checks);
  base::Result<> Launch(driver::abi::CUfunction function, const Region& region, void** parameters);

  const driver::CudaDriver& cuda_;
  driver::CudaDevice device_;
  driver::abi::CUcontext context_ = nullptr;
  driver::abi::CUmodule module_ = nullptr;
  driver::abi::CUfunction fill_ = nullptr, add_ = nullptr, check_ = nullptr, spin_ = nullptr;
  driver::abi::CUstream stream_ = nullptr;
  driver::abi::CUdeviceptr answer_ = 0;  // two words for the result of gpuman_check
  driver::abi::CUdeviceptr window_ = 0;
};

}  // namespace gpuman::load
