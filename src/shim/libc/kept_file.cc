#include "shim/libc/kept_file.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpuman::shim {

KeptFile Keep(int descriptor) {
  struct stat status {};
  // glibc has a function of this name only since 2.33.
  if (descriptor < 0 || ::syscall(SYS_fstat, descriptor, &status) != 0) return {-1, 0, 0};
  return {descriptor, status.st_dev, status.st_ino};
}

bool IsStill(const KeptFile& file) {
  const KeptFile now = Keep(file.descriptor);
  return now.descriptor >= 0 && now.device == file.device && now.inode == file.inode;
}

}  // namespace gpuman::shim
