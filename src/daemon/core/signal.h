// Something that happens in one module, for those above it that registered.
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

  // While the daemon starts; `listener` is called as long as the signal lives, in the order of registration.
  void Connect(Listener listener) { listeners_.push_back(std::move(listener)); }
  void operator()(Arguments... arguments) const {
    for (const auto& listener : listeners_) listener(arguments...);
  }

 private:
  std::vector<Listener> listeners_;
};

}  // namespace gpuman::daemon
