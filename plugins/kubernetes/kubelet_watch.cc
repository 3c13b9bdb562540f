#include "plugins/kubernetes/kubelet_watch.h"

#include <sys/inotify.h>

#include <boost/asio/buffer.hpp>
#include <cstring>
#include <string_view>

namespace gpuman::kubernetes {

base::Result<std::unique_ptr<KubeletWatch>> KubeletWatch::Start(boost::asio::io_context& loop,
                                                                const std::filesystem::path& directory,
                                                                Listener listener) {
  base::Fd notify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!notify.ok()) return base::FailSystem(errno, "watching kubelet's directory");
  constexpr std::uint32_t kMask =
      IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  if (::inotify_add_watch(notify.get(), directory.c_str(), kMask) < 0)
    return base::FailSystem(errno, "watching " + directory.string());
  std::unique_ptr<KubeletWatch> watch(new KubeletWatch(loop, std::move(listener)));
  watch->notify_.assign(notify.Release());
  watch->Wait();
  return watch;
}

void KubeletWatch::Wait() {
  notify_.async_read_some(boost::asio::buffer(events_),
                          [this](boost::system::error_code error, std::size_t size) {
                            if (!error) Read(size);
                          });
}

void KubeletWatch::Read(std::size_t size) {
  bool socket = false, removed = false, lost = false;
  for (std::size_t at = 0; at + sizeof(inotify_event) <= size;) {
    inotify_event event{};
    std::memcpy(&event, events_.data() + at, sizeof event);
    const std::string_view name = event.len > 0 ? events_.data() + at + sizeof event : "";
    const bool came = (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0;
    socket = socket || (came && name == "kubelet.sock") || (event.mask & IN_Q_OVERFLOW) != 0;
    removed = removed || (event.mask & (IN_DELETE | IN_MOVED_FROM)) != 0;
    lost = lost || (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0;
    at += sizeof event + event.len;
  }
  if (lost) return listener_.on_lost();  // which may end this object
  Wait();
  if (removed) listener_.on_removed();
  if (socket) listener_.on_socket();
}

}  // namespace gpuman::kubernetes
