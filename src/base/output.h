// The end of a small program that prints: whether its output came through.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

#include "base/result.h"

namespace gpuman::base {

// The exit status of a program that printed to stdout and would end with `status`. If the output could not be
// written (a full disk), the reason is printed to stderr, and the status is 1, as that of `gpuman`. A reader
// that closes the pipe, as `head` does, has read enough: nothing is printed then.
inline int FinishOutput(const char* program, int status) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return status;
  // The streams keep no reason of a write that failed earlier; another write has the same one.
  const int error = ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
  if (error != EPIPE)
    std::fprintf(stderr, "%s: %s\n", program, SystemError(error, "writing the output").message.c_str());
  return 1;
}

}  // namespace gpuman::base
