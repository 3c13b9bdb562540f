// The daemon's side of gpuman-notifier (notify/wire.h): starts the process, sends it orders, and receives its
// reports.
//
// Not thread-safe: lives on the event loop, where callbacks run; a thread of `workers` starts the process.
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
    std::function<void(const notify::DeliveryReport&)> on_report;
    // The notifier could not be started, has ended, or has written something invalid. No callback follows.
    std::function<void(const base::Error&)> on_gone;
  };

  NotifierLink(boost::asio::io_context& loop, boost::asio::thread_pool& workers, Callbacks callbacks);

  void Start(const std::filesystem::path& program);
  // May be called before the notifier runs. If an order cannot be sent, on_gone reports the notifier's end.
  void Send(const notify::DeliveryRequest& order);
  // Ends the notifier at once, also in the middle of an order. No callback follows.
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
