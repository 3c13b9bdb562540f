#include "sim/mps/peers.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

namespace gpuman::sim::mps {
namespace {

constexpr const char* kServerName = "nvidia-cuda-mps-server";

}  // namespace

Peers::~Peers() {
  while (!doors_.empty()) Close(std::string(doors_.begin()->first));
}

int Peers::Serve(const std::string& directory, const std::function<bool()>& goes_on,
                 const std::function<void()>& end) {
  if (!Open(directory)) return 1;
  const std::string pid_file = directory + "/nvidia-cuda-mps-control.pid";
  std::ofstream(pid_file) << ::getpid() << "\n";
  ::signal(SIGPIPE, SIG_IGN);
  do Turn();
  while (goes_on());
  end();
  Close(directory);
  ::unlink(pid_file.c_str());
  return 0;
}

bool Peers::Open(const std::string& directory) {
  const std::string path = directory + "/control";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 64) != 0) {
    ::close(listener);
    return false;
  }
  ::chmod(path.c_str(), 0666);
  doors_[directory] = listener;
  return true;
}

void Peers::Close(const std::string& directory) {
  const auto door = doors_.extract(directory);
  if (door.empty()) return;
  ::close(door.mapped());
  ::unlink((directory + "/control").c_str());
}

void Peers::Turn() {
  const auto doors = doors_;  // an answer may open and close some
  std::vector<pollfd> wait;
  wait.reserve(doors.size() + 2 * peers_.size());
  for (const auto& [directory, listener] : doors) wait.push_back({listener, POLLIN, 0});
  for (const auto& peer : peers_) {
    wait.push_back({peer.fd, POLLIN, 0});
    wait.push_back({peer.process, POLLIN, 0});
  }
  ::poll(wait.data(), wait.size(), 50);
  std::size_t at = 0;
  for (const auto& [directory, listener] : doors)
    if ((wait[at++].revents & POLLIN) != 0) Accept(listener, directory);
  // By descriptor, since handling one peer may change the list.
  for (; at < wait.size(); at += 2)
    if (wait[at].revents != 0 || wait[at + 1].revents != 0) Hear(wait[at].fd, wait[at + 1].revents != 0);
}

void Peers::Accept(int listener, const std::string& door) {
  Peer peer;
  peer.fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (peer.fd < 0) return;
  ucred who{};
  socklen_t size = sizeof who;
  ::getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
  peer.pid = who.pid;
  peer.uid = who.uid;
  peer.door = door;
  peer.process = static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0));
  peers_.push_back(std::move(peer));
}

Peer* Peers::Find(int fd) {
  const auto it = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.fd == fd; });
  return it == peers_.end() ? nullptr : &*it;
}

void Peers::Drop(int fd) {
  const auto it = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.fd == fd; });
  if (it == peers_.end()) return;
  ::close(it->fd);
  if (it->process >= 0) ::close(it->process);
  peers_.erase(it);
  OnChange();
}

void Peers::Hear(int fd, bool ended) {
  Peer* const peer = Find(fd);
  if (!peer) return;
  std::array<char, 512> buffer{};
  const auto got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) peer->line.append(buffer.data(), static_cast<std::size_t>(got));
  const auto end = peer->line.find('\n');
  if (!peer->joined && end != std::string::npos) {
    const std::string line = peer->line.substr(0, end);
    if (line != "join") {
      Say(fd, Answer(line, Peer(*peer)));
      return Drop(fd);
    }
    peer->joined = true;
    return OnChange();
  }
  if (got == 0 || (ended && got < 0)) Drop(fd);
}

void Peers::Say(int fd, const std::string& text) { (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL); }

std::size_t Peers::CountClients(pid_t server) const {
  return static_cast<std::size_t>(
      std::count_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.server == server; }));
}

pid_t StartServerProcess(const std::string& self, uid_t uid) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::geteuid() == 0 && uid != 0 && ::setresuid(uid, uid, uid) != 0) ::_exit(1);
    ::execl(self.c_str(), kServerName, nullptr);
    ::_exit(127);
  }
  return pid;
}

std::string Percent(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string NameOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace gpuman::sim::mps
