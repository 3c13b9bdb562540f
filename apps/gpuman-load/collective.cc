#include "collective.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "kernels.h"

namespace gpuman::load {

using base::Result;
namespace abi = driver::abi;

Result<std::unique_ptr<Collective>> Collective::Open(Session& session,
                                                     std::span<const abi::CUdeviceptr> windows,
                                                     unsigned rank) {
  std::unique_ptr<Collective> collective(new Collective(session));
  GPUMAN_TRY(collective->Start(windows, rank));
  return collective;
}

Result<> Collective::Start(std::span<const abi::CUdeviceptr> windows, unsigned rank) {
  const auto& cuda = session_.cuda();
  const auto& calls = session_.calls();
  abi::CUmodule module = nullptr;
  GPUMAN_TRY(cuda.Invoke("cuModuleLoadData", calls.cuModuleLoadData, &module, kRankKernels));
  const std::array<std::pair<const char*, abi::CUfunction*>, 5> functions{{{"gpuman_wait", &wait_},
                                                                           {"gpuman_signal", &signal_},
                                                                           {"gpuman_push", &push_},
                                                                           {"gpuman_reduce", &reduce_},
                                                                           {"gpuman_sum", &sum_}}};
  for (const auto& [name, function] : functions)
    GPUMAN_TRY(cuda.Invoke("cuModuleGetFunction", calls.cuModuleGetFunction, function, module, name));

  ranks_ = windows.size();
  std::vector<Link> links;
  using At = WindowLayout;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned other = 0; other < ranks_; ++other)
      links.push_back({windows[other] + At::Messages(lane, rank), windows[other] + At::There(lane, rank),
                       windows[other] + At::Taken(lane, rank), windows[rank] + At::Messages(lane, other),
                       windows[rank] + At::There(lane, other), windows[rank] + At::Taken(lane, other)});
  const std::size_t bytes = links.size() * sizeof(Link);
  GPUMAN_TRY(cuda.Invoke("cuMemAlloc", calls.cuMemAlloc_v2, &links_, bytes));
  return cuda.Invoke("cuMemcpyHtoD", calls.cuMemcpyHtoD_v2, links_, links.data(), bytes);
}

template <typename... Arguments>
Result<> Collective::Launch(abi::CUfunction function, abi::CUstream stream, unsigned threads,
                            Arguments... arguments) {
  constexpr unsigned kThreads = 256;
  std::array<void*, sizeof...(Arguments)> parameters{&arguments...};
  return session_.cuda().Invoke("cuLaunchKernel", session_.calls().cuLaunchKernel, function,
                                (threads + kThreads - 1) / kThreads, 1u, 1u, std::min(threads, kThreads), 1u,
                                1u, 0u, stream, parameters.data(), nullptr);
}

Result<> Collective::Send(abi::CUstream stream, unsigned lane, std::uint64_t ranks, abi::CUdeviceptr block) {
  const auto links = LinksOf(lane);
  // Two messages fit: the one before the last must have been taken.
  GPUMAN_TRY(Launch(wait_, stream, 1, links, ranks, std::uint64_t{offsetof(Link, taken)},
                    std::uint64_t{offsetof(Link, sent)}, std::int64_t{-1}));
  GPUMAN_TRY(Launch(push_, stream, kBlockWords, links, ranks, std::uint64_t{block}, kBlockWords));
  return Launch(signal_, stream, 1, links, ranks, std::uint64_t{offsetof(Link, to_there)},
                std::uint64_t{offsetof(Link, sent)});
}

Result<> Collective::Take(abi::CUstream stream, unsigned lane, std::uint64_t ranks, abi::CUdeviceptr own,
                          abi::CUdeviceptr to) {
  const auto links = LinksOf(lane);
  GPUMAN_TRY(Launch(wait_, stream, 1, links, ranks, std::uint64_t{offsetof(Link, there)},
                    std::uint64_t{offsetof(Link, took)}, std::int64_t{1}));
  GPUMAN_TRY(
      Launch(reduce_, stream, kBlockWords, links, ranks, std::uint64_t{own}, std::uint64_t{to}, kBlockWords));
  return Launch(signal_, stream, 1, links, ranks, std::uint64_t{offsetof(Link, to_taken)},
                std::uint64_t{offsetof(Link, took)});
}

Result<> Collective::CheckSum(abi::CUstream stream, abi::CUdeviceptr sum, std::uint64_t ranks, unsigned block,
                              abi::CUdeviceptr added, abi::CUdeviceptr out) {
  return Launch(sum_, stream, kBlockWords, std::uint64_t{sum}, kBlockWords, ranks, std::uint64_t{block},
                std::uint64_t{added}, std::uint64_t{out});
}

}  // namespace gpuman::load
