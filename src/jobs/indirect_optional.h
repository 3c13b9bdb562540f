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
class IndirectOptional {
 public:
  IndirectOptional() = default;
  IndirectOptional(T value)  // NOLINT(google-explicit-constructor): as std::optional
      : value_(std::make_unique<T>(std::move(value))) {}
  IndirectOptional(std::optional<T> value)  // NOLINT(google-explicit-constructor): as std::optional
      : value_(value ? std::make_unique<T>(*std::move(value)) : nullptr) {}
  IndirectOptional(const IndirectOptional& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  IndirectOptional(IndirectOptional&&) noexcept = default;
  IndirectOptional& operator=(const IndirectOptional& other) { return *this = IndirectOptional(other); }
  IndirectOptional& operator=(IndirectOptional&&) noexcept = default;
  ~IndirectOptional() = default;

  explicit operator bool() const { return value_ != nullptr; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }
  std::optional<T> Optional() const { return value_ ? std::optional(*value_) : std::nullopt; }

  friend bool operator==(const IndirectOptional& a, const IndirectOptional& b) {
    return a && b ? *a == *b : !a == !b;
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace gpuman::jobs
