// Messages between the ranks, by kernels on streams: each sends to the windows of the others and waits for
// theirs.
#pragma once

#include <memory>
#include <span>

#include "plan.h"
#include "session.h"
#include "windows.h"

namespace gpuman::load {

// The calls queue kernels and do not wait; what they queue may be captured. Sets of ranks are bits. Must not
// outlive the session.
class Collective {
 public:
  // `windows`: the device addresses of all, by rank.
  static base::Result<std::unique_ptr<Collective>> Open(Session& session,
                                                        std::span<const driver::abi::CUdeviceptr> windows,
                                                        unsigned rank);

  // Waits until each of `ranks` has room for one more block, and sends it.
  base::Result<> Send(driver::abi::CUstream stream, unsigned lane, std::uint64_t ranks,
                      driver::abi::CUdeviceptr block);
  // Waits for a block of each of `ranks`; `to` becomes their sum with the block `own`.
  base::Result<> Take(driver::abi::CUstream stream, unsigned lane, std::uint64_t ranks,
                      driver::abi::CUdeviceptr own, driver::abi::CUdeviceptr to);
  // Compares a sum with what it must be, the blocks with number `block` of `ranks`, each raised as often as
  // the word at `added` says; adds to the two words at `out`: words that differ, the smallest index of one.
  base::Result<> CheckSum(driver::abi::CUstream stream, driver::abi::CUdeviceptr sum, std::uint64_t ranks,
                          unsigned block, driver::abi::CUdeviceptr added, driver::abi::CUdeviceptr out);

  // What a rank's block is filled with (pattern.h).
  static std::uint64_t SeedOf(unsigned rank, unsigned block) {
    return (std::uint64_t{rank} + 1) << 32 | (std::uint64_t{block} + 1);
  }

 private:
  // As ranks.ptx says.
  struct Link {
    std::uint64_t to_messages, to_there, to_taken, messages, there, taken, sent = 0, took = 0;
  };

  explicit Collective(Session& session) : session_(session) {}
  base::Result<> Start(std::span<const driver::abi::CUdeviceptr> windows, unsigned rank);
  template <typename... Arguments>
  base::Result<> Launch(driver::abi::CUfunction function, driver::abi::CUstream stream, unsigned threads,
                        Arguments... arguments);
  std::uint64_t LinksOf(unsigned lane) const { return links_ + lane * ranks_ * sizeof(Link); }

  Session& session_;
  std::uint64_t ranks_ = 0;
  driver::abi::CUdeviceptr links_ = 0;
  driver::abi::CUfunction wait_ = nullptr, signal_ = nullptr, push_ = nullptr, reduce_ = nullptr,
                          sum_ = nullptr;
};

}  // namespace gpuman::load
