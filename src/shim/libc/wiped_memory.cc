#include "shim/libc/wiped_memory.h"

#include <sys/mman.h>

namespace gpuman::shim {

void* MapWiped(std::size_t bytes) {
  void* const fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  if (::madvise(fresh, bytes, MADV_WIPEONFORK) == 0) return fresh;
  ::munmap(fresh, bytes);
  return nullptr;
}

void UnmapWiped(void* memory, std::size_t bytes) { ::munmap(memory, bytes); }

}  // namespace gpuman::shim
