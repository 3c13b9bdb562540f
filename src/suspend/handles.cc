#include "suspend/handles.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace gpuman::suspend {

bool CanBeDeviceMemory(int descriptor) {
  // F_GET_SEALS works for memory files only, and asks no file system.
  if (::fcntl(descriptor, F_GET_SEALS) >= 0) return true;
  struct statx status {};
  return ::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
         S_ISCHR(status.stx_mode);
}

}  // namespace gpuman::suspend
