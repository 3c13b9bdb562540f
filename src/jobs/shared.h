// Values that many jobs have in common: immutable, and copies share them. A daemon keeps 100,000 jobs; those
// of one user mostly have the same environment, limits and terms.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace gpuman::jobs {

template <typename T>
class Shared {
 public:
  Shared() : value_(Empty()) {}
  Shared(T value)  // NOLINT(google-explicit-constructor): a value is what it stands for
      : value_(std::make_shared<const T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  const std::shared_ptr<const T>& pointer() const { return value_; }
  friend bool operator==(const Shared& a, const Shared& b) {
    return a.value_ == b.value_ || *a.value_ == *b.value_;
  }

 private:
  template <typename, typename>
  friend class Pool;
  explicit Shared(std::shared_ptr<const T> value) : value_(std::move(value)) {}
  static const std::shared_ptr<const T>& Empty() {
    static const auto kEmpty = std::make_shared<const T>();
    return kEmpty;
  }

  std::shared_ptr<const T> value_;
};

// Makes equal values one. Keeps nothing alive. Not thread-safe; the values are.
template <typename T, typename Hash>
class Pool {
 public:
  // The one that is equal and still in use, else this one, from now on.
  Shared<T> Share(const Shared<T>& value) {
    if (auto last = last_.lock(); last && last == value.pointer()) return value;
    if (known_.size() >= sweep_at_) Sweep();
    const std::size_t hash = Hash()(*value);
    const auto [first, last] = known_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (auto shared = it->second.lock(); shared && *shared == *value) {
        last_ = shared;
        return Shared<T>(std::move(shared));
      }
    known_.emplace(hash, value.pointer());
    last_ = value.pointer();
    return value;
  }

 private:
  void Sweep() {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = 2 * known_.size() + 64;
  }

  std::multimap<std::size_t, std::weak_ptr<const T>> known_;  // by hash
  std::weak_ptr<const T> last_;
  std::size_t sweep_at_ = 64;
};

}  // namespace gpuman::jobs
