// The sockets of the simulated MPS control daemon, and who is connected to them: programs that give a
// command, and clients. For one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gpuman::sim::mps {

struct Peer {
  int fd = -1;
  int process = -1;  // pidfd
  pid_t pid = 0;
  uid_t uid = 0;
  std::string door;  // the directory of the socket that it connected to
  std::string line;
  bool joined = false;       // a client
  pid_t server = 0;          // 0: it waits for a server
  std::string name_space{};  // protocol 3
};

class Peers {
 public:
  virtual ~Peers();
  Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

 protected:
  // Serves in this directory, with the file of its pid there, as long as `goes_on` says so after each turn;
  // then calls `end`. Returns the exit status.
  int Serve(const std::string& directory, const std::function<bool()>& goes_on,
            const std::function<void()>& end);
  // Listens at "control" in this directory. False: that is not possible.
  bool Open(const std::string& directory);
  void Close(const std::string& directory);
  // Waits a moment, and takes what has come.
  void Turn();

  // A line that somebody sent; the caller ends the connection behind it.
  virtual std::string Answer(const std::string& line, const Peer& asker) = 0;
  // A client has come, or somebody has left. May call Lose.
  virtual void OnChange() = 0;

  std::vector<Peer>& all() { return peers_; }
  const std::vector<Peer>& all() const { return peers_; }
  std::size_t CountClients(pid_t server) const;
  static void Say(int fd, const std::string& text);
  // Tells these clients that they have lost their GPU, with this error; returns how many they are.
  template <typename Which>
  std::size_t Lose(Which which, int code) {
    std::vector<int> gone;
    for (const auto& peer : peers_)
      if (which(peer)) gone.push_back(peer.fd);
    for (const int fd : gone) {
      Say(fd, "gone " + std::to_string(code) + "\n");
      Drop(fd);
    }
    return gone.size();
  }
  // Ends one connection without a word.
  void Drop(int fd);

 private:
  void Accept(int listener, const std::string& door);
  void Hear(int fd, bool ended);
  Peer* Find(int fd);

  std::map<std::string, int> doors_;  // directory to listening socket
  std::vector<Peer> peers_;
};

// A server: this program by another name, as a process of that user, that only waits.
pid_t StartServerProcess(const std::string& self, uid_t uid);

inline constexpr int kRpcFailure = 806;        // CUDA_ERROR_MPS_RPC_FAILURE
inline constexpr int kClientTerminated = 810;  // CUDA_ERROR_MPS_CLIENT_TERMINATED
inline constexpr int kNotPermitted = 800;      // CUDA_ERROR_NOT_PERMITTED

// "50.0" with one digit, the format of percentages by protocol 2.
std::string Percent(double value, int digits);
// The name of a process's program.
std::string NameOf(pid_t pid);

}  // namespace gpuman::sim::mps
