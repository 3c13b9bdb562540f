// Values that many jobs have in common: immutable and shared by copies. A daemon keeps 100,000 jobs; the jobs
// of one user mostly have the same environment, limits and queue spec.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

namespace gpuman::jobs {

// The empty value takes no memory and counts no references, so threads that make jobs do not contend for it.
template <typename T>
class Shared {
 public:
  Shared() = default;
  Shared(T value)  // NOLINT(google-explicit-constructor): a value is what it stands for
      : value_(value == *Empty() ? nullptr : std::make_shared<const T>(std::move(value))) {}

  const T& operator*() const { return *pointer(); }
  const T* operator->() const { return pointer().get(); }
  // Replaces the value by a changed copy; other copies keep theirs.
  template <typename F>
  void Change(F&& change) {
    T copy = **this;
    change(copy);
    *this = Shared(std::move(copy));
  }
  // Never null. Equal values of one pool have one pointer.
  const std::shared_ptr<const T>& pointer() const { return value_ ? value_ : Empty(); }
  friend bool operator==(const Shared& a, const Shared& b) { return a.value_ == b.value_ || *a == *b; }

 private:
  template <typename, typename>
  friend class ValueDeduplicator;
  explicit Shared(std::shared_ptr<const T> value) : value_(std::move(value)) {}
  static const std::shared_ptr<const T>& Empty() {
    static const auto kEmpty = std::make_shared<const T>();
    return kEmpty;
  }

  std::shared_ptr<const T> value_;  // null: empty
};

// Makes equal values share one object. Keeps no value alive. Not thread-safe; the shared values are
// thread-safe.
template <typename T, typename Hash>
class ValueDeduplicator {
 public:
  // Returns the equal value that is still in use, or this one, which others share from now on.
  Shared<T> Share(const Shared<T>& value) {
    if (!value.value_) return value;
    if (auto last = last_.lock(); last && (last == value.value_ || *last == *value))
      return Shared<T>(std::move(last));
    if (known_.size() >= sweep_at_) Sweep();
    const std::size_t hash = Hash()(*value);
    const auto [first, last] = known_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (auto shared = it->second.lock(); shared && *shared == *value) {
        last_ = shared;
        return Shared<T>(std::move(shared));
      }
    known_.emplace(hash, value.value_);
    last_ = value.value_;
    return value;
  }

 private:
  void Sweep() {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = 2 * known_.size() + 64;
  }

  std::multimap<std::size_t, std::weak_ptr<const T>> known_;  // by hash
  std::weak_ptr<const T> last_;                               // consecutive jobs mostly have equal values
  std::size_t sweep_at_ = 64;
};

}  // namespace gpuman::jobs
