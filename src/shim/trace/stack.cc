#include "shim/trace/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstring>

#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

// Of libgcc's unwinder (the interface that C++'s exceptions have: Itanium C++ ABI, level I).
using UnwindStep = int(void* context, void* argument);
using Unwind = int(UnwindStep*, void*);
using AddressOf = std::uintptr_t(void* context);

constexpr int kGoOn = 0, kEnough = 4;

Unwind* unwind;
AddressOf* address_of;
std::uint64_t interpreter;  // an address in CPython; 0: there is none

int Step(void* context, void* argument) {
  auto& stack = *static_cast<CallStack*>(argument);
  const std::uintptr_t address = __atomic_load_n(&address_of, __ATOMIC_RELAXED)(context);
  if (address == 0 || stack.native == wire::kMaxNativeFrames) return kEnough;
  stack.address[stack.native++] = address;
  return kGoOn;
}

std::uint64_t Mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

// Reads the build id of an object that is loaded.
void ReadBuildId(const dl_phdr_info& object, const ElfW(Phdr) & header, LoadedModule& module) {
  const auto* at = reinterpret_cast<const char*>(object.dlpi_addr + header.p_vaddr);
  const char* const end = at + header.p_memsz;
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    at += sizeof note;
    const std::size_t name = (note.n_namesz + 3u) & ~3u, text = (note.n_descsz + 3u) & ~3u;
    if (name > static_cast<std::size_t>(end - at) || text > static_cast<std::size_t>(end - at) - name) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(at, "GNU", 4) == 0 &&
        note.n_descsz <= sizeof module.id) {
      module.id_bytes = static_cast<std::uint16_t>(note.n_descsz);
      std::memcpy(module.id, at + name, note.n_descsz);
      return;
    }
    at += name + text;
  }
}

struct Search {
  std::uint64_t address;
  LoadedModule* module;
};

int Look(dl_phdr_info* object, std::size_t, void* argument) {
  const auto& search = *static_cast<const Search*>(argument);
  std::uint64_t begin = UINT64_MAX, end = 0;
  bool inside = false;
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const std::uint64_t first = object->dlpi_addr + header.p_vaddr, last = first + header.p_memsz;
    begin = first < begin ? first : begin;
    end = last > end ? last : end;
    inside = inside || (search.address >= first && search.address < last);
  }
  if (!inside) return 0;
  LoadedModule& module = *search.module;
  module.begin = begin;
  module.end = end;
  module.base = object->dlpi_addr;
  module.interpreter = interpreter >= begin && interpreter < end;
  module.id_bytes = 0;
  const char* const path = object->dlpi_name != nullptr ? object->dlpi_name : "";
  module.path_bytes = static_cast<std::uint16_t>(::strnlen(path, sizeof module.path));
  std::memcpy(module.path, path, module.path_bytes);
  for (unsigned i = 0; i < object->dlpi_phnum && module.id_bytes == 0; ++i) {
    if (object->dlpi_phdr[i].p_type == PT_NOTE) ReadBuildId(*object, object->dlpi_phdr[i], module);
  }
  return 1;
}

}  // namespace

void PrepareToWalk() {
  if (void* const gcc = ::dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL); gcc != nullptr) {
    __atomic_store_n(&address_of, reinterpret_cast<AddressOf*>(RealDlsym(gcc, "_Unwind_GetIP")),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&unwind, reinterpret_cast<Unwind*>(RealDlsym(gcc, "_Unwind_Backtrace")),
                     __ATOMIC_RELEASE);
  }
  FindPython();
  __atomic_store_n(&interpreter,
                   reinterpret_cast<std::uintptr_t>(RealDlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault")),
                   __ATOMIC_RELAXED);
}

void WalkStack(CallStack& stack) {
  stack.native = 0;
  Unwind* const walk = __atomic_load_n(&unwind, __ATOMIC_ACQUIRE);
  if (walk != nullptr && address_of != nullptr) walk(Step, &stack);
  stack.python = ReadPythonLines(stack.line, wire::kMaxPythonFrames);
}

std::uint64_t HashOf(const CallStack& stack) {
  std::uint64_t hash = Mixed(stack.native, stack.python);
  for (unsigned i = 0; i < stack.native; ++i) hash = Mixed(hash, stack.address[i]);
  for (unsigned i = 0; i < stack.python; ++i) {
    const PythonLine& line = stack.line[i];
    hash = Mixed(Mixed(hash, HashOf(line.function)), static_cast<std::uint64_t>(line.line));
  }
  return hash != 0 ? hash : 1;
}

bool FindModule(std::uint64_t address, LoadedModule& module) {
  Search search{address, &module};
  if (::dl_iterate_phdr(Look, &search) == 0) return false;
  if (module.path_bytes != 0) return true;
  const ssize_t bytes = ::readlink("/proc/self/exe", module.path, sizeof module.path);
  module.path_bytes = bytes > 0 ? static_cast<std::uint16_t>(bytes) : 0;
  return true;
}

}  // namespace gpuman::shim
