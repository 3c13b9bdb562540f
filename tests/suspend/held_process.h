// A process of the test that holds memory of a device and does as it is told, line by line: this program
// again, as a child.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/process.h"

namespace gpuman::suspend {

// Commands: "check" answers "whole" or "wrong"; "spin MS" starts a kernel of that length and answers
// "spinning"; "managed" takes managed memory and answers "managed".
int RunHeldProcess(int argc, char** argv);

class HeldProcess {
 public:
  // Fills its memory with a pattern first. `device` -1: it has nothing to do with CUDA.
  HeldProcess(int device, unsigned mebibytes);
  ~HeldProcess();  // killed
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
