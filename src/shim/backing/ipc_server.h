// Hands out the memory that this process shares by cuIpcGetMemHandle, as descriptors, to processes that open
// it. A thread of the shim holds the descriptors in a table of its own (own_descriptors.h), and hands them
// out at a socket.
//
// The socket has a random name in the abstract namespace, which is part of the handle. It serves processes of
// the same user. This process itself tells the thread by the same socket what to hold, so none of the
// descriptors is in the program's table. Thread-safe. See docs/shim-protocol.md.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace gpuman::shim {

struct BackingState;

struct IpcServer {
  pthread_mutex_t mutex;
  std::uint32_t state;    // a futex word; 0: not started
  std::uint8_t name[16];  // known once the server serves
};

// Starts the server where it does not serve yet. Returns false where there can be none.
bool StartIpcServer(BackingState& state);

// One conversation with a server: this process's own, or that of another process of the same user. Each
// message is waited for at most ten seconds.
class IpcConnection {
 public:
  explicit IpcConnection(const std::uint8_t (&name)[16]);
  ~IpcConnection();
  IpcConnection(const IpcConnection&) = delete;
  IpcConnection& operator=(const IpcConnection&) = delete;

  // With this process's own server: adds `count` descriptors to the export of that number; the caller keeps
  // its own. `last`: these were all, and other processes may have them now. Returns false where the server
  // has dropped the export.
  bool Offer(std::uint64_t number, const int* descriptors, unsigned count, bool last);
  // With this process's own server: no process may have the descriptors any more, and the server closes them.
  bool Withdraw(std::uint64_t number);

  // With the server of another process: Ask asks for an export. Next gets its descriptors, up to kMaxParts at
  // a time, for the caller to close.
  bool Ask(std::uint64_t number);
  bool Next(int* descriptors, unsigned& count, bool& last);

  // After Ask or Next has failed: whether the server, which was reached, ended the conversation without an
  // answer. It does that with a client that is slow, which may ask again in another conversation.
  bool HungUp() const { return hung_up_; }

 private:
  bool Say(std::uint32_t verb, std::uint64_t number, const int* descriptors, unsigned count, bool last);
  bool Done();

  int socket_;
  bool hung_up_ = false;
};

}  // namespace gpuman::shim
