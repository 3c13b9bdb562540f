// Room on a GPU that a transfer may take on its way back, granted little by little. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace gpuman::mover {

class GpuRoomCredit {
 public:
  // Sets the credit of the next step that asks for room; no `room`: no bound.
  void Begin(std::optional<std::uint64_t> room) {
    const std::lock_guard lock(mutex_);
    limited_ = room.has_value();
    called_off_ = false;
    left_ += room.value_or(0);
    changed_.notify_all();
  }
  void Grant(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    left_ += bytes;
    changed_.notify_all();
  }
  // From now on no step waits for more room, because the process does not want its memory back any more.
  void CallOff() {
    const std::lock_guard lock(mutex_);
    called_off_ = true;
    changed_.notify_all();
  }
  void End() {
    const std::lock_guard lock(mutex_);
    limited_ = false;
    left_ = 0;
  }

  enum class Got { kYes, kNotYet, kNever };
  // Waits at most for `patience`.
  Got Take(std::uint64_t bytes, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return !limited_ || left_ >= bytes || called_off_; });
    if (!limited_) return Got::kYes;
    if (left_ < bytes) return called_off_ ? Got::kNever : Got::kNotYet;
    left_ -= bytes;
    return Got::kYes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool limited_ = false, called_off_ = false;
  std::uint64_t left_ = 0;
};

}  // namespace gpuman::mover
