// The descriptor store keeps descriptors of the shim in a table of their own. The table belongs to a thread
// that does nothing else (unshare of CLONE_FILES).
//
// A descriptor in the program's own table would have three faults. Each child of a fork would inherit it and
// keep device memory alive. A program that closes all its descriptors would close it, and its number could
// then stand for another file. And it would count against the program's limit. None of that can happen in the
// descriptor store, and the store ends with the process. One descriptor in the program's table leads to the
// store. The program may close it; then the shim makes another when it needs one. Thread-safe.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/libc/kept_file.h"

namespace gpuman::shim {

struct DescriptorStore {
  pthread_mutex_t mutex;
  bool started;
  std::uint32_t broken;       // atomic; 1: there can be no store here, and no memory can leave the device
  KeptFile end;               // the shim's end of a socket to the thread, in the program's table
  std::uint32_t asked, done;  // futex words; the thread works while they differ
  std::uint32_t verb;
  int number;
  std::uint8_t name[16];  // of the socket at which the thread waits for another `end`
};

// Starts the thread where it has not started yet, and finds out whether there can be a store.
void OpenDescriptorStore(DescriptorStore& descriptor_store);
// Moves the descriptor into the store; in the program's table it is closed in any case. Returns its number in
// the store; -1: there is no room, or no descriptor store.
int PutDescriptor(DescriptorStore& descriptor_store, int descriptor);
// Returns a duplicate in the program's table, for the caller to close or pass on; -1: there is none.
int DuplicateDescriptor(DescriptorStore& descriptor_store, int number);
void CloseDescriptor(DescriptorStore& descriptor_store, int number);

}  // namespace gpuman::shim
