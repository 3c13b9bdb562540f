// Submits jobs one by one over one connection, each after the answer to the last: measures the daemon with
// almost no time in the client.
//
// Usage: submit_client SOCKET COUNT BODY    prints the seconds it took
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int Connect(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  return fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

bool Send(int fd, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

// Reads a whole answer by its Content-Length; empty where the connection ended.
std::string Receive(int fd) {
  static const std::string kLength = "\r\nContent-Length: ";
  std::string text;
  for (;;) {
    const auto head = text.find("\r\n\r\n");
    const auto length = text.find(kLength);
    if (head != std::string::npos && length < head) {
      const auto body = std::strtoul(text.c_str() + length + kLength.size(), nullptr, 10);
      if (text.size() >= head + 4 + body) return text;
    }
    char chunk[4096];
    const ssize_t n = ::recv(fd, chunk, sizeof chunk, 0);
    if (n <= 0) return {};
    text.append(chunk, static_cast<std::size_t>(n));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: submit_client SOCKET COUNT BODY\n", stderr);
    return 2;
  }
  const int fd = Connect(argv[1]);
  if (fd < 0) {
    std::perror(argv[1]);
    return 1;
  }
  const std::string body = argv[3];
  const std::string request =
      "POST /v1/submissions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  const auto begin = std::chrono::steady_clock::now();
  for (long left = std::atol(argv[2]); left > 0; --left) {
    const std::string answer = Send(fd, request) ? Receive(fd) : "";
    if (!answer.starts_with("HTTP/1.1 201 ")) {
      std::fprintf(stderr, "submit_client: %s\n", answer.c_str());
      return 1;
    }
  }
  std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  ::close(fd);
  return 0;
}
