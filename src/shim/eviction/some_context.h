// One of the program's contexts is current to a thread of the shim while an object lives. No context can be
// destroyed meanwhile.
#pragma once

#include "shim/eviction/eviction_state.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {

class InSomeContext {
 public:
  explicit InSomeContext(EvictionState& state) : state_(state), lock_(state.contexts) {
    std::uint64_t any = 0;
    state.context.ForEach([&](std::uint64_t context, const Context&) { any = context; });
    auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
    const auto handle = reinterpret_cast<driver::abi::CUcontext>(static_cast<std::uintptr_t>(any));
    pushed_ = any != 0 && push != nullptr && push(handle) == driver::abi::CUDA_SUCCESS;
  }
  ~InSomeContext() {
    // The driver may be ending with the program. A context that stays current to the thread does no harm.
    if (IsEnding(state_)) return;
    driver::abi::CUcontext ignored = nullptr;
    if (auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2); pushed_ && pop != nullptr) pop(&ignored);
  }
  InSomeContext(const InSomeContext&) = delete;
  InSomeContext& operator=(const InSomeContext&) = delete;
  explicit operator bool() const { return pushed_; }

 private:
  const EvictionState& state_;
  Locked lock_;
  bool pushed_ = false;
};

}  // namespace gpuman::shim
