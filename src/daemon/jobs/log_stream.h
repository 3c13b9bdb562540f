// Sends a job's log to a client: its end, or all of it, and what is added later while the job lives.
//
// Lives on the event loop; a thread of LogReaderPool opens and reads the file, a step at a time. While it
// follows, it looks every 100 ms whether the file has grown.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "daemon/http/exchange.h"
#include "daemon/jobs/log_reader_pool.h"
#include "daemon/jobs/tail_search.h"

namespace gpuman::daemon {

struct LogRequest {
  std::filesystem::path path;
  std::optional<std::size_t> tail;  // lines; absent: from `offset`
  std::uint64_t offset = 0;         // bytes
  bool follow = false;
};

class LogStream : public std::enable_shared_from_this<LogStream> {
 public:
  // Answers the exchange. `ended` says whether the job has ended, so that no more can come. The stream keeps
  // itself alive until the answer is complete or the client has gone. `readers` must outlive it.
  static void Start(boost::asio::io_context& loop, LogReaderPool& readers, http::ExchangePtr exchange,
                    LogRequest request, std::function<bool()> ended);

 private:
  LogStream(boost::asio::io_context& loop, LogReaderPool& readers, http::ExchangePtr exchange,
            LogRequest request, std::function<bool()> ended);
  // What one step on the thread has found.
  struct Found {
    bool searching = false;        // for where the last lines begin
    bool again = false;            // the file may not be opened now
    bool any = false;              // something was read, or another file has taken its place
    std::optional<off_t> begin{};  // of the answer: the first time
    std::vector<std::string> pieces{};
  };
  void Begin();
  void Step();
  void StepAfter(std::chrono::milliseconds pause);
  void Deliver(bool last);

  // These run on the thread. Meanwhile the loop does not touch the members that they use.
  Found ReadNext();
  bool Open();
  off_t OffsetInFile() const;
  bool ReadSome(Found& found);
  bool Rotated();

  boost::asio::steady_timer timer_;
  LogReaderPool& readers_;
  http::ExchangePtr exchange_;
  const LogRequest request_;
  std::function<bool()> ended_;
  bool gone_ = false;

  base::Fd file_;
  bool begun_ = false;
  std::optional<TailSearch> tail_;  // until it is known where the answer begins
  Found found_;
};

}  // namespace gpuman::daemon
