// An optional value that few of many jobs have: it takes one pointer where it is absent. A daemon keeps
// 100,000 jobs.
//
// As std::optional: a copy has a value of its own. Thread-compatible.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace gpuman::jobs {

template <typename T>
class Rare {
 public:
  Rare() = default;
  Rare(T value)  // NOLINT(google-explicit-constructor): as std::optional
      : value_(std::make_unique<T>(std::move(value))) {}
  Rare(std::optional<T> value)  // NOLINT(google-explicit-constructor): as std::optional
      : value_(value ? std::make_unique<T>(*std::move(value)) : nullptr) {}
  Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(const Rare& other) { return *this = Rare(other); }
  Rare& operator=(Rare&&) noexcept = default;
  ~Rare() = default;

  explicit operator bool() const { return value_ != nullptr; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }
  std::optional<T> Optional() const { return value_ ? std::optional(*value_) : std::nullopt; }

  friend bool operator==(const Rare& a, const Rare& b) { return a && b ? *a == *b : !a == !b; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace gpuman::jobs
