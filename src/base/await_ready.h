// Waits on the event loop until a descriptor is ready.
//
// Asio's async_wait may also end for an event of another descriptor: what asio keeps of a descriptor that is
// closed goes to the next one that is opened, and an event that the kernel told before counts for that one
// (epoll_reactor.ipp, Boost 1.74). Whoever reads then finds nothing and waits again. But where the end of the
// wait is itself the news, as the end of a process is, it has to be checked.
#pragma once

#include <poll.h>

#include <boost/system/error_code.hpp>
#include <utility>

namespace gpuman::base {

// Calls `ready` when poll(2) shows one of `events`; never if the descriptor is closed before. `descriptor`
// stays where it is until then. `wait`: the kind of wait for which asio is to watch.
template <typename Descriptor, typename Ready>
void AwaitReady(Descriptor& descriptor, typename Descriptor::wait_type wait, short events, Ready ready) {
  descriptor.async_wait(
      wait, [&descriptor, wait, events, ready = std::move(ready)](boost::system::error_code error) mutable {
        if (error) return;
        pollfd now{descriptor.native_handle(), events, 0};
        if (::poll(&now, 1, 0) == 0) return AwaitReady(descriptor, wait, events, std::move(ready));
        ready();
      });
}

}  // namespace gpuman::base
