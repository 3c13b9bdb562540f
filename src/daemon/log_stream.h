// Sends a job's log to a client: its end, or all of it, and what comes later while the job lives.
//
// Lives on the event loop. While it follows it looks every 100 ms whether the file has grown.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon {

struct LogRequest {
  std::filesystem::path path;
  std::optional<std::size_t> tail;  // lines; absent: from `offset`
  std::uint64_t offset = 0;         // bytes
  bool follow = false;
};

// Where the last lines of a file begin, looked for in steps: its user can make it as long as a file can be.
class TailSearch {
 public:
  // The descriptor stays open as long as this object.
  TailSearch(int fd, std::size_t lines);
  // Looks through so many pieces of 64 KiB more; nullopt: there are more to look through.
  std::optional<off_t> Look(std::size_t pieces);

 private:
  int fd_;
  std::size_t lines_;
  std::size_t seen_ = 0;
  off_t end_ = 0, at_ = 0;
};

class LogStream : public std::enable_shared_from_this<LogStream> {
 public:
  // Answers the exchange. `ended` says whether more can come. Keeps itself alive until the answer is complete
  // or the client gone.
  static void Start(boost::asio::io_context& loop, http::ExchangePtr exchange, LogRequest request,
                    std::function<bool()> ended);

 private:
  LogStream(boost::asio::io_context& loop, http::ExchangePtr exchange, LogRequest request,
            std::function<bool()> ended);
  void Begin();
  void BeginAt(off_t begin);
  void Step();
  void StepAfter(std::chrono::milliseconds pause);
  // Sends what there is; false when nothing was.
  bool SendSome();
  bool Rotated();

  boost::asio::steady_timer timer_;
  http::ExchangePtr exchange_;
  LogRequest request_;
  std::function<bool()> ended_;
  base::Fd file_;
  std::optional<TailSearch> tail_;  // until it is known where the answer begins
  bool gone_ = false;
};

}  // namespace gpuman::daemon
