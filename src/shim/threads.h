// Threads of the shim's own: detached, without a signal of the program's, and not in the way of its end.
#pragma once

namespace gpuman::shim {

// False: there can be no more threads.
bool StartThread(void* (*run)(void*), void* argument);

}  // namespace gpuman::shim
