#include "session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels.h"

namespace gpuman::load {

using base::Result;
namespace abi = driver::abi;

Result<std::unique_ptr<Session>> Session::Open(const driver::CudaDriver& cuda, int ordinal, bool checks) {
  GPUMAN_TRY(cuda.Init());
  GPUMAN_ASSIGN(auto devices, cuda.Devices());
  if (static_cast<std::size_t>(ordinal) >= devices.size())
    return base::Fail(base::ErrorCode::kNotFound,
                      fmt::format("there is no device {}: the driver shows {}", ordinal, devices.size()));
  std::unique_ptr<Session> session(new Session(cuda, devices[static_cast<std::size_t>(ordinal)]));
  GPUMAN_TRY(session->Start(checks));
  return session;
}

Result<> Session::Start(bool checks) {
  GPUMAN_TRY(cuda_.Invoke("cuCtxCreate", calls().cuCtxCreate_v2, &context_,
                          static_cast<unsigned>(abi::CU_CTX_SCHED_BLOCKING_SYNC), device_.handle));
  GPUMAN_TRY(cuda_.Invoke("cuModuleLoadData", calls().cuModuleLoadData, &module_, kKernels));
  const std::array<std::pair<const char*, abi::CUfunction*>, 4> functions{
      {{"gpuman_fill", &fill_}, {"gpuman_add", &add_}, {"gpuman_check", &check_}, {"gpuman_spin", &spin_}}};
  for (const auto& [name, function] : functions)
    GPUMAN_TRY(cuda_.Invoke("cuModuleGetFunction", calls().cuModuleGetFunction, function, module_, name));
  if (checks) GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls().cuMemAlloc_v2, &answer_, std::size_t{16}));
  return cuda_.Invoke("cuStreamCreate", calls().cuStreamCreate, &stream_,
                      static_cast<unsigned>(abi::CU_STREAM_NON_BLOCKING));
}

Session::~Session() {
  if (context_ && calls().cuCtxDestroy_v2) calls().cuCtxDestroy_v2(context_);
}

Result<base::Bytes> Session::Free() const {
  std::size_t free = 0, total = 0;
  GPUMAN_TRY(cuda_.Invoke("cuMemGetInfo", calls().cuMemGetInfo_v2, &free, &total));
  return base::Bytes{free};
}

Result<abi::CUdeviceptr> Session::Window(base::Bytes size) {
  if (!window_) GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls().cuMemAlloc_v2, &window_, size.count));
  return window_;
}

Result<> Session::Launch(abi::CUfunction function, const Region& region, void** parameters) {
  constexpr std::uint64_t kThreads = 256;
  const auto columns = std::clamp<std::uint64_t>((region.width + kThreads - 1) / kThreads, 1, 4096);
  const auto rows = std::clamp<std::uint64_t>(region.rows, 1, 4096);
  return cuda_.Invoke("cuLaunchKernel", calls().cuLaunchKernel, function, static_cast<unsigned>(columns),
                      static_cast<unsigned>(rows), 1u, static_cast<unsigned>(kThreads), 1u, 1u, 0u, stream_,
                      parameters, nullptr);
}

Result<> Session::Fill(const Region& region, std::uint64_t seed) {
  Region r = region;
  std::array<void*, 5> parameters{&r.base, &r.width, &r.rows, &r.pitch, &seed};
  return Launch(fill_, region, parameters.data());
}

Result<> Session::Add(const Region& region) {
  Region r = region;
  std::array<void*, 4> parameters{&r.base, &r.width, &r.rows, &r.pitch};
  return Launch(add_, region, parameters.data());
}

Result<> Session::Spin(std::chrono::nanoseconds time) {
  auto nanoseconds = static_cast<std::uint64_t>(time.count());
  std::array<void*, 1> parameters{&nanoseconds};
  return cuda_.Invoke("cuLaunchKernel", calls().cuLaunchKernel, spin_, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream_,
                      parameters.data(), nullptr);
}

Result<> Session::Synchronize() {
  return cuda_.Invoke("cuStreamSynchronize", calls().cuStreamSynchronize, stream_);
}

Result<Mismatches> Session::Check(const Region& region, std::uint64_t seed, std::uint64_t added) {
  std::array<std::uint64_t, 2> answer{0, UINT64_MAX};
  GPUMAN_TRY(cuda_.Invoke("cuMemcpyHtoDAsync", calls().cuMemcpyHtoDAsync_v2, answer_, answer.data(),
                          sizeof answer, stream_));
  Region r = region;
  auto out = answer_;
  std::array<void*, 7> parameters{&r.base, &r.width, &r.rows, &r.pitch, &seed, &added, &out};
  GPUMAN_TRY(Launch(check_, region, parameters.data()));
  GPUMAN_TRY(cuda_.Invoke("cuMemcpyDtoHAsync", calls().cuMemcpyDtoHAsync_v2, answer.data(), answer_,
                          sizeof answer, stream_));
  GPUMAN_TRY(Synchronize());
  return Mismatches{answer[0], answer[1]};
}

}  // namespace gpuman::load
