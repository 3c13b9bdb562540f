// The daemon's side of gpuman-notifier (notify/wire.h): starts it, gives it orders, hears how they went.
//
// Not thread-safe: lives on the event loop, where callbacks run; the process is started on `workers`.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/child_process.h"
#include "base/fd.h"
#include "base/result.h"
#include "notify/wire.h"

namespace gpuman::daemon {

class NotifierLink : public std::enable_shared_from_this<NotifierLink> {
 public:
  struct Callbacks {
    std::function<void(const notify::Report&)> on_report;
    // It could not be started, has ended or writes nonsense; nothing more comes.
    std::function<void(const base::Error&)> on_gone;
  };

  NotifierLink(boost::asio::io_context& loop, boost::asio::thread_pool& workers, Callbacks callbacks);

  void Start(const std::filesystem::path& program);
  // Also before it runs. What cannot be sent shows as its end.
  void Send(const notify::Order& order);
  // Ends it, whatever it is at; no callback comes any more.
  void Stop();

 private:
  void OnSpawned(base::Result<base::Fd> socket);
  void Read();
  void Write();
  void Gone(const base::Error& error);

  Callbacks callbacks_;
  bool stopped_ = false;
  const std::shared_ptr<base::ChildProcess> child_;
  boost::asio::posix::stream_descriptor socket_;
  std::string waiting_;  // to be written
  std::string writing_;
  std::string read_;
  std::array<char, 4096> chunk_{};
};

}  // namespace gpuman::daemon
