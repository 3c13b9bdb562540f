#include "notifier/notifier.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "notifier/curl_transfer.h"
#include "notify/wire.h"

namespace gpuman::notifier {
namespace {

constexpr int kDone = 0, kFailed = 1;
constexpr uid_t kNobody = 65534;
constexpr int kPollMillis = 60'000;  // milliseconds; events wake it earlier

bool GiveUpRights() {
  if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
    return false;
  // Secrets of users pass through this process. So it writes no core files, and no other process of its user
  // can read its memory.
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

class Sender {
 public:
  explicit Sender(CURLM* multi) : multi_(multi) {}
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() {
    for (const auto& [handle, transfer] : transfers_) ::curl_multi_remove_handle(multi_, handle);
  }

  int Serve() {
    for (;;) {
      int running = 0;
      ::curl_multi_perform(multi_, &running);
      if (!TellWhatEnded()) return kDone;
      curl_waitfd orders{notify::kNotifierSocket, CURL_WAIT_POLLIN, 0};
      if (::curl_multi_poll(multi_, &orders, 1, kPollMillis, nullptr) != CURLM_OK) return kFailed;
      if (!ReadOrders()) return kDone;
    }
  }

 private:
  // False: the daemon has closed the socket.
  bool ReadOrders() {
    std::array<char, 65536> chunk;
    for (;;) {
      const ssize_t got = ::read(notify::kNotifierSocket, chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno == EAGAIN;
      if (got == 0) return false;
      buffer_.append(chunk.data(), static_cast<std::size_t>(got));
      for (std::string line; notify::TakeLine(buffer_, line);)
        if (!Begin(line)) return false;
    }
  }

  bool Begin(const std::string& line) {
    auto order = notify::ParseOrder(line);
    if (!order) return false;  // the daemon has another version: this process ends, and the daemon notices
    const std::int64_t number = order->number;
    auto transfer = CurlTransfer::Begin(std::move(*order));
    if (!transfer) return Tell({number, {0, transfer.error().message, true, {}}});
    CURL* const handle = (*transfer)->handle();
    ::curl_multi_add_handle(multi_, handle);
    transfers_.emplace(handle, std::move(*transfer));
    return true;
  }

  bool TellWhatEnded() {
    int left = 0;
    while (const CURLMsg* const message = ::curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const handle = message->easy_handle;
      const auto report = transfers_.at(handle)->ReportOf(message->data.result);
      ::curl_multi_remove_handle(multi_, handle);
      transfers_.erase(handle);
      if (!Tell(report)) return false;
    }
    return true;
  }

  static bool Tell(const notify::DeliveryReport& report) {
    // The socket does not block, so this loop may wait for room in it. The wait is short, because the daemon
    // always reads and reports are short.
    std::string line = notify::Serialize(report);
    while (!line.empty()) {
      const ssize_t written = ::write(notify::kNotifierSocket, line.data(), line.size());
      if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
      if (written > 0) line.erase(0, static_cast<std::size_t>(written));
      if (written < 0 && errno == EAGAIN) ::usleep(1000);
    }
    return true;
  }

  CURLM* multi_;
  std::map<CURL*, std::unique_ptr<CurlTransfer>> transfers_;
  std::string buffer_;
};

}  // namespace

int Run() {
  std::signal(SIGPIPE, SIG_IGN);
  if (!GiveUpRights()) return kFailed;
  if (::fcntl(notify::kNotifierSocket, F_SETFL, O_NONBLOCK) != 0) return kFailed;
  if (::curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return kFailed;
  int status = kFailed;
  if (CURLM* const multi = ::curl_multi_init()) {
    status = Sender(multi).Serve();
    ::curl_multi_cleanup(multi);
  }
  ::curl_global_cleanup();
  return status;
}

}  // namespace gpuman::notifier
