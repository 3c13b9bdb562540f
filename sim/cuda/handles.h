// The objects that the program holds by opaque pointers. A wrong pointer is detected, never dereferenced.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace gpuman::sim::cuda {

// Thread-safe. `Handle` is the vendor's pointer type for a T.
template <typename T, typename Handle>
class Handles {
 public:
  Handle Add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    T* const pointer = object.get();
    objects_[pointer] = std::move(object);
    return reinterpret_cast<Handle>(pointer);
  }
  // nullptr: no such object.
  std::shared_ptr<T> Find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(reinterpret_cast<T*>(handle));
    return at != objects_.end() ? at->second : nullptr;
  }
  std::shared_ptr<T> Take(Handle handle) {
    const std::lock_guard lock(mutex_);
    auto node = objects_.extract(reinterpret_cast<T*>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  // Removes and returns the objects for which `choose` is true.
  template <typename Choose>
  std::vector<std::shared_ptr<T>> TakeIf(Choose choose) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> taken;
    for (auto at = objects_.begin(); at != objects_.end();) {
      if (choose(*at->second)) {
        taken.push_back(std::move(at->second));
        at = objects_.erase(at);
      } else {
        ++at;
      }
    }
    return taken;
  }
  std::vector<std::shared_ptr<T>> All() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [pointer, object] : objects_) all.push_back(object);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<T*, std::shared_ptr<T>> objects_;
};

template <typename Handle, typename T>
Handle HandleOf(const std::shared_ptr<T>& object) {
  return reinterpret_cast<Handle>(object.get());
}

}  // namespace gpuman::sim::cuda
