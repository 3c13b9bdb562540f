#include "sim/cuda/device.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace gpuman::sim::cuda {
namespace {

std::optional<unsigned> FindGpu(const Shared& shared, std::string_view word) {
  if (word.starts_with("GPU-")) {
    std::optional<unsigned> found;
    for (unsigned gpu = 0; gpu < shared.gpus; ++gpu) {
      if (!std::string_view(shared.gpu_static[gpu].uuid).starts_with(word)) continue;
      if (found) return std::nullopt;
      found = gpu;
    }
    return found;
  }
  unsigned index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  if (error != std::errc{} || end != word.data() + word.size() || index >= shared.gpus) return std::nullopt;
  return index;
}

}  // namespace

std::vector<unsigned> VisibleGpus(const Shared& shared, const char* variable) {
  std::vector<unsigned> gpus;
  if (variable == nullptr) {
    for (unsigned gpu = 0; gpu < shared.gpus; ++gpu) gpus.push_back(gpu);
    return gpus;
  }
  std::string_view rest = variable;
  while (true) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    const auto gpu = FindGpu(shared, word);
    if (!gpu) return gpus;
    if (std::find(gpus.begin(), gpus.end(), *gpu) != gpus.end()) return {};
    gpus.push_back(*gpu);
    if (comma == std::string_view::npos) return gpus;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<Visible> VisibleDevices(const Shared& shared, const char* variable) {
  const std::string_view words = variable == nullptr ? "" : variable;
  if (words.starts_with("MIG-")) {
    const auto mig = FindMigDevice(shared, words.substr(0, words.find(',')));
    return mig ? std::vector<Visible>{{mig->instance.device(), mig}} : std::vector<Visible>{};
  }
  std::vector<Visible> whole;
  std::optional<MigDevice> first;
  for (const unsigned gpu : VisibleGpus(shared, variable)) {
    if (shared.gpu[gpu].mig_current.load() == 0) {
      whole.push_back({gpu});
      continue;
    }
    const auto devices = MigDevices(shared, gpu);
    if (!first && !devices.empty()) first = devices.front();
  }
  if (whole.empty() && first) whole.push_back({first->instance.device(), first});
  return whole;
}

CUuuid ParseUuid(std::string_view text) {
  CUuuid uuid{};
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) text.remove_prefix(4);
  unsigned digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    unsigned value = 0;
    if (std::from_chars(&c, &c + 1, value, 16).ec != std::errc{} || digits >= 32) return CUuuid{};
    char& byte = uuid.bytes[digits / 2];
    byte = static_cast<char>(unsigned{static_cast<unsigned char>(byte)} << 4 | value);
    ++digits;
  }
  return digits == 32 ? uuid : CUuuid{};
}

std::string Device::uuid() const {
  return mig_ ? MigUuid(state_.shared(), mig_->instance, mig_->compute.id) : info().uuid;
}

std::string Device::name() const { return mig_ ? MigName(state_.shared(), *mig_) : info().name; }

unsigned Device::multiprocessors() const {
  if (!mig_) return info().multiprocessors;
  return info().multiprocessors * mig_->compute.slices / ProfileOf(state_.shared(), mig_->instance).slices;
}

bool Device::IsLost() const {
  return dynamic().lost.load() != 0 || (mig_ && state_->gpu[mig_->instance.gpu].lost.load() != 0);
}

std::uint64_t Device::Free() const {
  client_.SweepDead();
  const std::uint64_t used = DeviceUsed(state_.shared(), gpu());
  const std::uint64_t capacity = Capacity();
  return used < capacity ? capacity - used : 0;
}

void Device::Limit(std::uint64_t bytes) {
  if (bytes != 0) limit_ = std::min(limit_, bytes);
}

bool Device::Reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ || held_ > limit_ - bytes) return false;
  if (!client_.ReserveDeviceBytes(gpu_, bytes)) return false;
  held_ += bytes;
  return true;
}

void Device::Return(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  if (!suspended_) client_.ReturnDeviceBytes(gpu_, bytes);
}

void Device::SharedBegan(std::uint64_t inode, std::uint64_t bytes, bool imported) {
  imported_ += imported ? 1 : 0;
  client_.SharingBegan(gpu_, inode, bytes);
}

void Device::SharedEnded(std::uint64_t inode, bool imported) {
  imported_ -= imported ? 1 : 0;
  client_.SharingEnded(inode);
}

void Device::ContextCreated() {
  const std::lock_guard lock(mutex_);
  ++contexts_;
  ProcessSlot* const slot = mig_ ? client_.Slot() : nullptr;
  if (slot != nullptr) slot->gpu[gpu_].compute_instance.store(mig_->compute.id);
  client_.ContextCreated(gpu_);
}

void Device::ContextDestroyed() {
  const std::lock_guard lock(mutex_);
  --contexts_;
  if (!suspended_) client_.ContextDestroyed(gpu_);
}

std::uint64_t Device::Residue() const { return std::min(held_.load(), kCheckpointResidue); }

void Device::Suspend() {
  const std::lock_guard lock(mutex_);
  if (suspended_) return;
  suspended_ = true;
  for (unsigned i = 0; i < contexts_; ++i) client_.ContextDestroyed(gpu_);
  client_.ReturnDeviceBytes(gpu_, held_ - Residue());
}

bool Device::MakeRoom(unsigned gpu) {
  const std::lock_guard lock(mutex_);
  return !suspended_ || client_.ReserveDeviceBytes(gpu, gpu == gpu_ ? held_ - Residue() : held_.load());
}

void Device::GiveUp(unsigned gpu) {
  const std::lock_guard lock(mutex_);
  if (suspended_) client_.ReturnDeviceBytes(gpu, gpu == gpu_ ? held_ - Residue() : held_.load());
}

void Device::Resume(unsigned gpu) {
  const std::lock_guard lock(mutex_);
  if (!suspended_) return;
  if (gpu != gpu_) client_.ReturnDeviceBytes(gpu_, Residue());
  gpu_ = gpu;
  for (unsigned i = 0; i < contexts_; ++i) client_.ContextCreated(gpu);
  suspended_ = false;
}

}  // namespace gpuman::sim::cuda
