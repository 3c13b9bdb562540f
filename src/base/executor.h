// How an object has work done on another thread.
#pragma once

#include <functional>

namespace gpuman::base {

// Calls its argument later, and never within the call: on an event loop or on a worker thread, as the
// function or class says that takes the executor. Thread-safe.
using Executor = std::function<void(std::function<void()>)>;

}  // namespace gpuman::base
