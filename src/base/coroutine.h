// Chains of callbacks as one function: a coroutine that waits for each of them.
//
//   base::DetachedCoroutine Run(std::shared_ptr<Change> change) {
//     const auto kept = co_await base::CallbackAwaitable<base::Result<>>([&](auto done) { store.Keep(rows, done); });
//     …
//   }
//
// A coroutine goes on in the thread that calls the callback. When a callback is destroyed without being
// called, the coroutine that waits for it is destroyed as well: nothing of it runs any more. Its parameters
// live as long as it does; take them by value.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace gpuman::base {

// The return type of a coroutine for which no caller waits: it starts at once, and ends by itself.
struct DetachedCoroutine {
  struct promise_type {
    DetachedCoroutine get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

// For co_await: `start` gets a function, which may be called once. The coroutine waits for that call, and the
// argument of the call is the result of co_await. `start` may call the function itself.
template <typename T>
class CallbackAwaitable {
 public:
  using Start = std::function<void(std::function<void(T)>)>;

  explicit CallbackAwaitable(Start start) : start_(std::move(start)) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waits) {
    const auto frame = std::make_shared<Frame>(waits);  // owned by the copies of the function below
    const auto start = std::move(start_);               // this object ends when the coroutine goes on
    start([this, frame](T result) {
      result_.emplace(std::move(result));
      std::exchange(frame->waits, nullptr).resume();
    });
  }
  T await_resume() { return std::move(*result_); }

 private:
  struct Frame {
    explicit Frame(std::coroutine_handle<> handle) : waits(handle) {}
    ~Frame() {
      if (waits) waits.destroy();
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    std::coroutine_handle<> waits;
  };

  Start start_;
  std::optional<T> result_;
};

}  // namespace gpuman::base
