// Names of functions and lines of source, by libdw where that is installed. The library is loaded when names
// are asked for, so that no other command of the program carries it.
//
// A file is read only where it is root's or the caller's own, and where its build id is that of the trace: a
// trace may name any file, and libdw must not parse a file that another user made. Devices, pipes
// and what is not mounted are not even opened.
#pragma once

#include <memory>

#include "trace/frames.h"

namespace gpuman::trace {

// Not thread-safe.
class Symbols {
 public:
  Symbols();
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // As NameFrame; what is not known stays empty.
  void Name(const MappedBinary& module, std::uint64_t address, Frame& frame);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuman::trace
