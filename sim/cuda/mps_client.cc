#include "sim/cuda/mps_client.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "sim/cuda/driver.h"
#include "sim/mps/control_socket.h"

namespace gpuman::sim::cuda {
namespace {

// Parses "8192M", "8G", "4096"; 0 if the text is not a size.
std::uint64_t SizeOf(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return 0;
  switch (end == text.data() + text.size() ? '\0' : *end) {
    case 'G':
      return number << 30;
    case 'M':
      return number << 20;
    case 'K':
      return number << 10;
    default:
      return number;
  }
}

int Connect() {
  const char* const directory = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return directory == nullptr || *directory == '\0' ? -1 : mps::ConnectTo(directory);
}

// A line without its end; empty when the daemon is gone.
std::string ReadLine(int fd) {
  std::string line;
  for (char letter = 0; ::recv(fd, &letter, 1, 0) == 1;) {
    if (letter == '\n') return line;
    line += letter;
  }
  return {};
}

// Without a control daemon the clients go on; only its last message counts.
void Listen(Driver& driver, int fd) {
  std::istringstream last(ReadLine(fd));
  std::string word;
  unsigned code = 0;
  if (last >> word >> code && word == "gone") driver.SetFault(static_cast<CUresult>(code));
  ::close(fd);
}

}  // namespace

std::uint64_t MpsLimitOf(const char* variable, int ordinal) {
  if (variable == nullptr) return 0;
  std::istringstream list{std::string(variable)};
  for (std::string entry; std::getline(list, entry, ',');) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos && entry.substr(0, equals) == std::to_string(ordinal))
      return SizeOf(std::string_view(entry).substr(equals + 1));
  }
  return 0;
}

bool NamesUnseenDevice(const char* variable, int devices) {
  if (variable == nullptr) return false;
  std::istringstream list{std::string(variable)};
  for (std::string entry; std::getline(list, entry, ',');) {
    int ordinal = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
    if (error == std::errc{} && *end == '=' && ordinal >= devices) return true;
  }
  return false;
}

MpsMembership JoinMps(Driver& driver) {
  const int fd = Connect();
  if (fd < 0) return {};
  constexpr std::string_view kJoin = "join\n";
  (void)::send(fd, kJoin.data(), kJoin.size(), MSG_NOSIGNAL);
  std::istringstream answer(ReadLine(fd));
  std::string word, threads, memory;
  unsigned code = 0;
  if ((answer >> word) && word == "no" && (answer >> code)) {
    ::close(fd);
    return {.refusal = static_cast<CUresult>(code)};
  }
  if (word != "ok" || !(answer >> threads >> memory)) {
    ::close(fd);
    return {};
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread must not take the program's signals
  std::thread([&driver, fd] { Listen(driver, fd); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  int protocol = 2;
  answer >> protocol;
  return {true, SizeOf(memory), protocol == 3 ? 3 : 2, CUDA_SUCCESS};
}

}  // namespace gpuman::sim::cuda
