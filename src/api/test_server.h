// A daemon for tests of clients: answers each connection with fixed bytes and keeps the requests.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/test_temp_dir.h"

namespace gpuman::api {

// Answers the n-th request with the n-th answer, and closes; the last answer serves for all later requests. A
// connection without a request does not count. `hold`: keep connections open after the answer until the
// server ends.
class TestServer {
 public:
  explicit TestServer(std::vector<std::string> answers, bool hold = false)
      : answers_(answers.begin(), answers.end()), hold_(hold) {
    listener_ = base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 16) != 0 || ::pipe2(stop_, O_CLOEXEC) != 0)
      std::abort();
    thread_ = std::thread([this] { Serve(); });
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
  }

  std::filesystem::path socket() const { return directory_.path() / "s"; }
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // A correct answer with the given body.
  static std::string Answer(int status, std::string_view body, std::string_view type = "application/json") {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + std::string(type) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
           std::string(body);
  }

 private:
  bool WaitFor(int fd) const {
    pollfd fds[2] = {{fd, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    return ::poll(fds, 2, -1) > 0 && fds[1].revents == 0;
  }

  static bool IsComplete(const std::string& request) {
    const auto end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const auto length = request.find("Content-Length: ");
    const std::size_t body = length < end ? std::stoul(request.substr(length + 16)) : 0;
    return request.size() >= end + 4 + body;
  }

  void Serve() {
    std::vector<base::Fd> held;
    while (WaitFor(listener_.get())) {
      base::Fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string request;
      char buffer[4096];
      while (!IsComplete(request) && WaitFor(peer.get())) {
        const ssize_t n = ::read(peer.get(), buffer, sizeof buffer);
        if (n <= 0) break;
        request.append(buffer, static_cast<std::size_t>(n));
      }
      if (request.empty()) continue;
      const std::string answer = answers_.front();
      if (answers_.size() > 1) answers_.pop_front();
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      (void)!::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      if (hold_) held.push_back(std::move(peer));
    }
  }

  base::TempDir directory_;
  std::deque<std::string> answers_;
  bool hold_;
  base::Fd listener_;
  int stop_[2] = {-1, -1};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace gpuman::api
