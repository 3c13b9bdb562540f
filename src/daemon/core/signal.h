// Something that happens in one module. The signal tells it to the modules above that have registered.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace gpuman::daemon {

template <typename... Arguments>
class Signal {
 public:
  using Listener = std::function<void(Arguments...)>;

  // Called while the daemon starts. The signal calls `listener` as long as the signal lives; listeners are
  // called in the order of registration.
  void Connect(Listener listener) { listeners_.push_back(std::move(listener)); }
  void operator()(Arguments... arguments) const {
    for (const auto& listener : listeners_) listener(arguments...);
  }

 private:
  std::vector<Listener> listeners_;
};

}  // namespace gpuman::daemon
