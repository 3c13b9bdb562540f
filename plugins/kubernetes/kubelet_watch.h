// Reports when kubelet's socket appears and when files in its directory go away, by inotify, on the event
// loop.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::kubernetes {

class KubeletWatch {
 public:
  // `on_socket`: kubelet.sock was created. `on_removed`: another file was removed, perhaps one of the
  // plugin's own sockets. `on_lost`: the directory itself is gone; no more calls follow.
  struct Listener {
    std::function<void()> on_socket, on_removed, on_lost;
  };
  // kNotFound: the directory does not exist (yet).
  static base::Result<std::unique_ptr<KubeletWatch>> Start(boost::asio::io_context& loop,
                                                           const std::filesystem::path& directory,
                                                           Listener listener);

 private:
  KubeletWatch(boost::asio::io_context& loop, Listener listener)
      : notify_(loop), listener_(std::move(listener)) {}
  void Wait();
  void Read(std::size_t size);

  boost::asio::posix::stream_descriptor notify_;
  const Listener listener_;
  alignas(8) std::array<char, 4096> events_;
};

}  // namespace gpuman::kubernetes
