// Frames with names, and places: where in a program memory is allocated. Pure but for what `name` does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trace/replay.h"

namespace gpuman::trace {

struct Frame {
  std::string function;       // empty: not known
  std::string file;           // of the source; empty: not known
  int line = 0;               // 0: not known
  std::string module;         // path; empty: a line of Python, or code of no module
  std::uint64_t address = 0;  // in the module's file, or in memory; of no line of Python
  bool python = false;
};

// Gives a frame what is known of an address in a module's file.
using NameFrame = std::function<void(const MappedBinary& module, std::uint64_t address, Frame& frame)>;

// The innermost frame first: code down to the interpreter, then lines of Python. Where the thread was in no
// Python, code alone. Frames of gpuman's own library are left out.
std::vector<Frame> FramesOf(const ProcessTrace& process, const CallStack& stack, const NameFrame& name);

// "/home/ann/train.py:31 in Net.forward", "Tensor::grow (tensor.cc:12)", "libmodel.so+0x1234", "unknown".
std::string TextOf(const Frame* place);

// Describes the stack's place as TextOf does. The place is the frame by which people know the stack: the
// innermost line of Python, or else the innermost frame outside of the libraries of CUDA. This asks for no
// more names than it needs.
std::string PlaceTextOf(const ProcessTrace& process, const CallStack& stack, const NameFrame& name);

struct AllocationSite {
  std::string text;
  Amount amount;
  std::vector<std::pair<StackRef, Amount>> stacks;  // the largest first
};

// The places of what was held, the largest first.
std::vector<AllocationSite> PlacesOf(const std::vector<ProcessTrace>& processes, const Moment& moment,
                                     const NameFrame& name);

}  // namespace gpuman::trace
