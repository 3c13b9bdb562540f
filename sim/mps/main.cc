// nvidia-cuda-mps-control [-d | -f]: the daemon in the background or foreground, or a program that sends
// commands from its standard input to the daemon and prints the answers. As nvidia-cuda-mps-server: a server.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include "sim/mps/control_socket.h"
#include "sim/mps/daemon.h"

namespace {

std::string Directory() {
  const char* const set = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return set && *set ? set : "/tmp/nvidia-mps";
}

// Sends one command. 1: no daemon listens.
int PassOn(const std::string& command) {
  const int fd = gpuman::sim::mps::ConnectTo(Directory());
  if (fd < 0) {
    std::puts("Cannot find MPS control daemon process");
    return 1;
  }
  const std::string line = command + "\n";
  (void)::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
    std::fwrite(buffer.data(), 1, static_cast<std::size_t>(got), stdout);
  ::close(fd);
  return 0;
}

int Start(bool background) {
  if (const int fd = gpuman::sim::mps::ConnectTo(Directory()); fd >= 0) {
    std::puts("An instance of this daemon is already running");
    return 1;
  }
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (background) {
    if (::fork() != 0) ::_exit(0);
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  }
  return gpuman::sim::mps::Serve(Directory(), self);
}

}  // namespace

int main(int argc, char** argv) {
  if (std::string_view(argv[0]).ends_with("nvidia-cuda-mps-server")) return gpuman::sim::mps::BeServer();
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "-d" || option == "-f") return Start(option == "-d");
  if (!option.empty()) {
    std::puts("usage: nvidia-cuda-mps-control [-d | -f]");
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty() && PassOn(line) != 0) return 1;
  return 0;
}
