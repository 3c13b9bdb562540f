// Callbacks that may outlive the object they act on: they do nothing once it is gone.
//
//   class Timer {
//     void Start() { timer_.async_wait(self_.Bind([](Timer& me, auto error) { me.OnTime(error); })); }
//     base::WeakSelf<Timer> self_{this};  // the last member, so that it goes first
//   };
//
// Not thread-safe: a callback is called on the thread on which the object lives.
#pragma once

#include <memory>
#include <utility>

namespace gpuman::base {

template <typename Owner>
class WeakSelf {
 public:
  // `owner` has this object as a member.
  explicit WeakSelf(Owner* owner) : owner_(std::make_shared<Owner*>(owner)) {}
  ~WeakSelf() { *owner_ = nullptr; }
  WeakSelf(const WeakSelf&) = delete;
  WeakSelf& operator=(const WeakSelf&) = delete;

  // Returns a callback that calls act(owner, arguments...) while the owner exists, the body of its destructor
  // included. The callback returns nothing; arguments arrive as const references.
  template <typename Act>
  auto Bind(Act act) const {
    return [weak = std::weak_ptr(owner_), act = std::move(act)](const auto&... arguments) {
      const auto owner = weak.lock();
      if (owner && *owner) act(**owner, arguments...);
    };
  }

 private:
  std::shared_ptr<Owner*> owner_;
};

}  // namespace gpuman::base
