// How ranks pass handles or addresses of memory to each other: a socket for each rank, made before the fork.
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "driver/abi/cuda.h"

namespace gpuman::load {

struct Message {
  unsigned from = 0;
  driver::abi::CUipcMemHandle handle{};  // of legacy IPC
  driver::abi::CUdeviceptr address = 0;  // of a thread of the same process
  driver::abi::CUcontext context = nullptr;
  base::Fd descriptor{};                 // of a virtual memory handle; may be empty
};

class Mailboxes {
 public:
  static base::Result<Mailboxes> Make(unsigned ranks);

  base::Result<> Send(unsigned to, const Message& message) const;
  // Waits for the next message to `own`.
  base::Result<Message> Receive(unsigned own) const;

 private:
  struct Box {
    base::Fd in, out;
  };
  std::vector<Box> boxes_;
};

}  // namespace gpuman::load
