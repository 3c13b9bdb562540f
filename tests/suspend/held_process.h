// A process of the test that holds memory of a device and obeys commands, line by line: this program again,
// as a child.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/process.h"

namespace gpuman::suspend {

// Commands: "check" answers "whole" or "wrong"; "spin MS" starts a kernel of that length and answers
// "spinning"; "managed" allocates managed memory and answers "managed".
int RunHeldProcess(int argc, char** argv);

class HeldProcess {
 public:
  // The process first fills its memory with a pattern. `device` -1: it does not use CUDA.
  HeldProcess(int device, unsigned mebibytes);
  ~HeldProcess();  // kills it
  HeldProcess(const HeldProcess&) = delete;
  HeldProcess& operator=(const HeldProcess&) = delete;

  base::ProcessId id() const { return id_; }
  void Tell(const std::string& line);
  std::string Heard();  // the next line; empty at its end
  std::string Ask(const std::string& line) {
    Tell(line);
    return Heard();
  }
  void Kill();

 private:
  base::ProcessId id_;
  base::Fd to_, from_;
};

}  // namespace gpuman::suspend
