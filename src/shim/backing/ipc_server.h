// Memory that this process shares by cuIpcGetMemHandle, as descriptors for those who open it: a thread of its
// own holds them, in a table of descriptors of its own (own_descriptors.h), and hands them out at a socket.
//
// The socket has a random name in the abstract namespace, which is part of the handle, and serves processes
// of the same user. The process itself tells the thread by the same socket what to hold: nothing of this is
// in the program's table. Thread-safe. docs/shim-protocol.md.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace gpuman::shim {

struct BackingState;

struct IpcServer {
  pthread_mutex_t mutex;
  std::uint32_t state;    // a futex word; 0: not started
  std::uint8_t name[16];  // known once it serves
};

// Starts it where it does not serve yet. False: there can be none.
bool StartIpcServer(BackingState& state);

// One conversation with a server, this process's own or another's of the same user. Waits ten seconds for it
// at most.
class IpcTalk {
 public:
  explicit IpcTalk(const std::uint8_t (&name)[16]);
  ~IpcTalk();
  IpcTalk(const IpcTalk&) = delete;
  IpcTalk& operator=(const IpcTalk&) = delete;

  // The process's own: takes so many descriptors, which stay the caller's, to the export of that number;
  // `last`: these were all, and others may have them now. False: it has none of them any more.
  bool Offer(std::uint64_t number, const int* descriptors, unsigned count, bool last);
  // The process's own: nobody may have them any more, and they are closed.
  bool Withdraw(std::uint64_t number);

  // Another's: asks for an export, then gets its descriptors, up to kMaxParts at a time, for who closes
  // them.
  bool Ask(std::uint64_t number);
  bool Next(int* descriptors, unsigned& count, bool& last);

 private:
  bool Say(std::uint32_t verb, std::uint64_t number, const int* descriptors, unsigned count, bool last);
  bool Done();

  int socket_;
};

}  // namespace gpuman::shim
