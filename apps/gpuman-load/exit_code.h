// Exit statuses of gpuman-load; scripts rely on the numbers.
#pragma once

namespace gpuman::load {

enum ExitCode : int {
  kDone = 0,
  kLost = 1,  // a daemonized child ended without a status
  kUsage = 2,
  kOutOfMemory = 3,
  kDataWrong = 4,
  kDriverError = 5,
};

}  // namespace gpuman::load
