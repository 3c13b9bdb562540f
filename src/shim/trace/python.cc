#include "shim/trace/python.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

// Where things lie in the objects of one version, on 64 bits. From the headers of CPython: cpython/pystate.h,
// internal/pycore_frame.h (before 3.11 cpython/frameobject.h), cpython/code.h, cpython/unicodeobject.h.
struct Layout {
  std::uint16_t thread_frame;      // of PyThreadState: its frame, or what `inner` says
  std::int16_t inner;              // not below 0: there is a _PyCFrame, which has the frame here
  std::uint16_t code, back, last;  // of the frame
  std::uint16_t scale;             // not 0: `last` is an index of so many bytes; 0: it points into the code
  std::uint16_t first_line, file, name, begin;  // of the code
  std::uint16_t ascii, compact;                 // where the text of a string begins
};
constexpr Layout kLayouts[] = {
    {24, -1, 32, 24, 104, 1, 40, 104, 112, 0, 48, 72},  // 3.9
    {24, -1, 32, 24, 96, 2, 40, 104, 112, 0, 48, 72},   // 3.10
    {56, 8, 32, 48, 56, 0, 72, 112, 128, 184, 48, 72},  // 3.11
    {56, 0, 0, 8, 56, 0, 68, 112, 128, 192, 40, 56},    // 3.12
    {72, -1, 0, 8, 56, 0, 68, 112, 128, 200, 40, 56},   // 3.13
};
constexpr int kFirstMinor = 9;
constexpr std::size_t kFrameBytes = 112, kCodeBytes = 136, kTextHead = 40;

struct Python {
  const Layout* layout;  // null: no CPython that is known
  std::uint64_t code_type, text_type;
  int (*is_initialized)();
  void* (*this_thread)();                // PyGILState_GetThisThreadState: needs no lock
  int (*line_of)(void* code, int last);  // PyCode_Addr2Line: only reads
};
Python python;

bool Read(std::uint64_t address, void* to, std::size_t bytes) {
  iovec here{to, bytes}, there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
  return ::syscall(SYS_process_vm_readv, ::getpid(), &here, 1ul, &there, 1ul, 0ul) ==
         static_cast<long>(bytes);
}

template <typename T>
T At(const char* object, std::size_t offset) {
  T value;
  std::memcpy(&value, object + offset, sizeof value);
  return value;
}

std::uint64_t FirstFrame(const Layout& layout, std::uint64_t thread) {
  std::uint64_t frame = 0;
  if (!Read(thread + layout.thread_frame, &frame, sizeof frame)) return 0;
  if (layout.inner >= 0 &&
      (frame == 0 || !Read(frame + static_cast<std::uint64_t>(layout.inner), &frame, sizeof frame)))
    return 0;
  return frame;
}

// Returns false where the frame is none of a function of Python.
bool ReadLine(const Layout& layout, const char* frame, PythonLine& line) {
  char code[kCodeBytes];
  const auto object = At<std::uint64_t>(frame, layout.code);
  if (object == 0 || !Read(object, code, sizeof code) || At<std::uint64_t>(code, 8) != python.code_type)
    return false;
  line.function = {object, At<std::uint64_t>(code, layout.file), At<std::uint64_t>(code, layout.name),
                   At<std::int32_t>(code, layout.first_line)};
  const std::int64_t last =
      layout.scale != 0
          ? std::int64_t{At<std::int32_t>(frame, layout.last)} * layout.scale
          : static_cast<std::int64_t>(At<std::uint64_t>(frame, layout.last) - object - layout.begin);
  constexpr std::int64_t kLongest = 1 << 28;
  line.line = last > kLongest ? 0
                              : python.line_of(reinterpret_cast<void*>(static_cast<std::uintptr_t>(object)),
                                               last < 0 ? -1 : static_cast<int>(last));
  return true;
}

std::size_t AddUtf8(std::uint32_t letter, char* text, std::size_t room) {
  char bytes[4];
  std::size_t count = 0;
  if (letter < 0x80) {
    bytes[count++] = static_cast<char>(letter);
  } else if (letter < 0x800) {
    bytes[count++] = static_cast<char>(0xc0 | letter >> 6);
  } else if (letter < 0x10000) {
    bytes[count++] = static_cast<char>(0xe0 | letter >> 12);
    bytes[count++] = static_cast<char>(0x80 | (letter >> 6 & 0x3f));
  } else {
    bytes[count++] = static_cast<char>(0xf0 | (letter >> 18 & 7));
    bytes[count++] = static_cast<char>(0x80 | (letter >> 12 & 0x3f));
    bytes[count++] = static_cast<char>(0x80 | (letter >> 6 & 0x3f));
  }
  if (letter >= 0x80) bytes[count++] = static_cast<char>(0x80 | (letter & 0x3f));
  if (count > room) return 0;
  std::memcpy(text, bytes, count);
  return count;
}

}  // namespace

std::uint64_t HashOf(const PythonFunctionId& function) {
  std::uint64_t hash = function.code;
  for (const std::uint64_t value :
       {function.file, function.name, static_cast<std::uint64_t>(function.first_line)})
    hash = (hash ^ (hash >> 31) ^ value) * 0xbf58476d1ce4e5b9u;
  return hash != 0 ? hash : 1;
}

void FindPython() {
  const auto find = [](const char* name) { return RealDlsym(RTLD_DEFAULT, name); };
  auto* const version = reinterpret_cast<const char* (*)()>(find("Py_GetVersion"));
  if (version == nullptr || __atomic_load_n(&python.layout, __ATOMIC_RELAXED) != nullptr) return;
  const char* const text = version();  // "3.11.2 (main, …"
  if (std::strncmp(text, "3.", 2) != 0) return;
  int minor = 0;
  for (const char* digit = text + 2; *digit >= '0' && *digit <= '9' && minor < 100; ++digit)
    minor = minor * 10 + (*digit - '0');
  if (minor < kFirstMinor || minor >= kFirstMinor + static_cast<int>(sizeof kLayouts / sizeof kLayouts[0]))
    return;
  python.code_type = reinterpret_cast<std::uintptr_t>(find("PyCode_Type"));
  python.text_type = reinterpret_cast<std::uintptr_t>(find("PyUnicode_Type"));
  python.is_initialized = reinterpret_cast<int (*)()>(find("Py_IsInitialized"));
  python.this_thread = reinterpret_cast<void* (*)()>(find("PyGILState_GetThisThreadState"));
  python.line_of = reinterpret_cast<int (*)(void*, int)>(find("PyCode_Addr2Line"));
  if (python.code_type == 0 || python.text_type == 0 || python.is_initialized == nullptr ||
      python.this_thread == nullptr || python.line_of == nullptr)
    return;
  __atomic_store_n(&python.layout, &kLayouts[minor - kFirstMinor], __ATOMIC_RELEASE);
}

unsigned ReadPythonLines(PythonLine* lines, unsigned room) {
  const Layout* const layout = __atomic_load_n(&python.layout, __ATOMIC_ACQUIRE);
  if (layout == nullptr || python.is_initialized() == 0) return 0;
  const auto thread = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(python.this_thread()));
  unsigned count = 0;
  std::uint64_t at = thread != 0 ? FirstFrame(*layout, thread) : 0;
  for (unsigned steps = 0; at != 0 && count < room && steps < 4 * room; ++steps) {
    char frame[kFrameBytes];
    if (!Read(at, frame, sizeof frame)) break;
    if (ReadLine(*layout, frame, lines[count])) ++count;
    at = At<std::uint64_t>(frame, layout->back);
  }
  return count;
}

std::size_t ReadPythonText(std::uint64_t object, char* text, std::size_t room) {
  constexpr unsigned kCompact = 1u << 5, kAscii = 1u << 6;
  const Layout* const layout = __atomic_load_n(&python.layout, __ATOMIC_ACQUIRE);
  char head[kTextHead];
  if (layout == nullptr || object == 0 || !Read(object, head, sizeof head) ||
      At<std::uint64_t>(head, 8) != python.text_type)
    return 0;
  const auto letters = At<std::uint64_t>(head, 16);
  const auto state = At<std::uint32_t>(head, 32);
  const unsigned width = state >> 2 & 7u;  // bytes of a letter
  if ((state & kCompact) == 0 || (width != 1 && width != 2 && width != 4)) return 0;
  const std::uint64_t begin = object + ((state & kAscii) != 0 ? layout->ascii : layout->compact);
  if ((state & kAscii) != 0) {
    const std::size_t bytes = letters < room ? static_cast<std::size_t>(letters) : room;
    return Read(begin, text, bytes) ? bytes : 0;
  }
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < letters && bytes < room; ++i) {
    std::uint32_t letter = 0;  // little-endian
    if (!Read(begin + i * width, &letter, width)) break;
    const std::size_t more = AddUtf8(letter, text + bytes, room - bytes);
    if (more == 0) break;
    bytes += more;
  }
  return bytes;
}

}  // namespace gpuman::shim
