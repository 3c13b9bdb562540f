// The lines of Python that the calling thread is in, where the program is CPython 3.9 to 3.13.
//
// The interpreter is not asked: whoever asks needs its lock, and PyTorch gives that up before it allocates,
// while it holds locks of its own. To wait for the interpreter's lock there could be for ever. But a thread's
// frames change by that thread alone, and it is here. So its frames are read where they lie, by the layout of
// the version, without a reference or a call that could change anything. Each read is the kernel's
// (process_vm_readv), and each object has to be of the type that is expected: where a layout is another one,
// there are no lines, and no fault.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuman::shim {

// What tells one function of Python from another, without its text.
struct PythonFunctionId {
  std::uint64_t code, file, name;  // objects
  std::int32_t first_line;
};

struct PythonLine {
  PythonFunctionId function;
  std::int32_t line;  // 0 or less: not known
};

std::uint64_t HashOf(const PythonFunctionId& function);

// Looks for CPython in the program.
void FindPython();
// Fills `lines` with the innermost first; returns how many there are. 0: the thread is in no Python.
unsigned ReadPythonLines(PythonLine* lines, unsigned room);
// The text of a string object, as UTF-8; returns how many bytes.
std::size_t ReadPythonText(std::uint64_t object, char* text, std::size_t room);

}  // namespace gpuman::shim
