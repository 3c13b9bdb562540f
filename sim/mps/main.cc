// nvidia-cuda-mps-control [-d | -f]: the daemon in the background or foreground, or a program that sends
// commands to the daemon and prints the answers: from its standard input, or by protocol 3 (-p 3, from driver
// 615 on) from its arguments. As nvidia-cuda-mps-server: a server.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/mps/control_socket.h"
#include "sim/mps/daemon.h"
#include "sim/mps/words.h"
#include "sim/state/state.h"

namespace {

using gpuman::sim::mps::Machine;

constexpr unsigned kFirstWithProtocol3 = 615;

std::string Directory() {
  const char* const set = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return set && *set ? set : "/tmp/nvidia-mps";
}

// GPUMAN_SIM_MPS_BRANCH is for tests without a simulated machine.
Machine MachineHere() {
  Machine machine;
  if (const char* const set = std::getenv("GPUMAN_SIM_MPS_BRANCH"))
    machine.branch = static_cast<unsigned>(std::strtoul(set, nullptr, 10));
  const auto state = gpuman::sim::State::OpenFromEnvironment();
  if (!state) return machine;
  const auto& shared = state->shared();
  machine.branch = shared.driver_major;
  for (unsigned gpu = 0; gpu < shared.gpus; ++gpu) machine.gpus.emplace_back(shared.gpu_static[gpu].uuid);
  return machine;
}

// nullopt: no daemon listens.
std::optional<std::string> Send(const std::string& command) {
  const int fd = gpuman::sim::mps::ConnectTo(Directory());
  if (fd < 0) return std::nullopt;
  const std::string line = command + "\n";
  (void)::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(fd);
  return answer;
}

int NoDaemon() {
  std::puts("Cannot find MPS control daemon process");
  return 1;
}

// Sends one command by protocol 2. 1: no daemon listens.
int PassOn(const std::string& command) {
  const auto answer = Send(command);
  if (!answer) return NoDaemon();
  std::fwrite(answer->data(), 1, answer->size(), stdout);
  return 0;
}

// By protocol 3: returns the status that the daemon gives.
int Order(const std::string& line) {
  const auto answer = Send(line);
  if (!answer) return NoDaemon();
  const auto end = answer->find('\n');
  if (end == std::string::npos) return 1;
  std::fwrite(answer->data() + end + 1, 1, answer->size() - end - 1, stdout);
  return answer->starts_with('0') ? 0 : 1;
}

int Start(bool background, bool protocol3, const Machine& machine) {
  if (const int fd = gpuman::sim::mps::ConnectTo(Directory()); fd >= 0) {
    std::puts("An instance of this daemon is already running");
    return 1;
  }
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (protocol3)
    std::printf("To connect CUDA applications to this daemon, set CUDA_MPS_PIPE_DIRECTORY=%s\n",
                Directory().c_str());
  std::fflush(stdout);
  if (background) {
    if (::fork() != 0) ::_exit(0);
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  }
  return protocol3 ? gpuman::sim::mps::ServeV3(Directory(), self, machine)
                   : gpuman::sim::mps::Serve(Directory(), self);
}

int Usage() {
  std::puts("usage: nvidia-cuda-mps-control [-d | -f]");
  return 1;
}

struct Arguments {
  bool daemon = false, foreground = false, quit = false, help = false;
  std::string protocol;
  std::vector<std::string> words{};
  bool valid = true;
};

Arguments Read(int argc, char** argv) {
  Arguments read;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!read.words.empty() || !word.starts_with('-'))
      read.words.emplace_back(word);
    else if (word == "-d" || word == "--daemon")
      read.daemon = true;
    else if (word == "-f" || word == "--foreground")
      read.foreground = true;
    else if (word == "-q" || word == "--quit")
      read.quit = true;
    else if (word == "-h" || word == "--help")
      read.help = true;
    else if ((word == "-p" || word == "--protocol") && i + 1 < argc)
      read.protocol = argv[++i];
    else
      read.valid = false;
  }
  return read;
}

// The variable goes before the option, and a daemon that runs before both.
bool IsProtocol3(const Arguments& read) {
  if (!read.daemon && !read.foreground)
    if (const auto answer = Send("protocol")) return answer->starts_with("3\n");
  const char* const set = std::getenv("CUDA_MPS_PROTOCOL_VERSION");
  return (set && *set ? std::string(set) : read.protocol) == "3";
}

int OrderWords(const std::vector<std::string>& words, const Machine& machine) {
  if (words.empty() || words.back() == "help") {
    std::fputs(gpuman::sim::mps::Help(words.size() > 1 ? words[0] : "", words.size() > 2 ? words[1] : "",
                                      machine.branch)
                   .c_str(),
               stdout);
    return words.empty() ? 1 : 0;
  }
  std::string line;
  for (const auto& word : words)
    line += (line.empty() ? "" : std::string(1, gpuman::sim::mps::kWordEnd)) + word;
  return Order(line);
}

}  // namespace

int main(int argc, char** argv) {
  if (std::string_view(argv[0]).ends_with("nvidia-cuda-mps-server")) return gpuman::sim::mps::BeServer();
  const Machine machine = MachineHere();
  const Arguments read = Read(argc, argv);
  const bool knows3 = machine.branch >= kFirstWithProtocol3;
  if (!read.valid || (!knows3 && (read.quit || read.help || !read.protocol.empty() || !read.words.empty())))
    return Usage();
  const bool protocol3 = knows3 && IsProtocol3(read);
  if (read.help) {
    if (!protocol3) return Usage();
    std::fputs(gpuman::sim::mps::Help("", "", machine.branch).c_str(), stdout);
    return 0;
  }
  if (read.daemon || read.foreground) return Start(read.daemon, protocol3, machine);
  if (protocol3) return read.quit ? Order("quit") : OrderWords(read.words, machine);
  if (read.quit || !read.words.empty()) return Usage();
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty() && PassOn(line) != 0) return 1;
  return 0;
}
