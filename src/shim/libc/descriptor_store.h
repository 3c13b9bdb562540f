// Descriptors that the shim has to keep: in a table of descriptors of their own, which belongs to a thread
// that does nothing else (unshare of CLONE_FILES).
//
// A descriptor in the program's own table would be inherited by each child of a fork, and keep device memory
// alive there; a program that closes all descriptors would close it, and its number come to mean something
// else; and it would count against the program's limit. In the descriptor store none of that can happen, and
// all of it goes with the process. The one descriptor of the program's table that leads there may be closed
// by the program: another is made when it is needed. Thread-safe.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "shim/libc/kept_file.h"

namespace gpuman::shim {

struct DescriptorStore {
  pthread_mutex_t mutex;
  bool started;
  std::uint32_t broken;       // atomic; there can be none here, and nothing can leave the device
  KeptFile end;               // of a socket to the thread, in the program's table
  std::uint32_t asked, done;  // futex words; the thread is at work where they differ
  std::uint32_t verb;
  int number;
  std::uint8_t name[16];  // where it listens while it waits for another `end`
};

// Looks whether there can be one.
void OpenDescriptorStore(DescriptorStore& descriptor_store);
// Moves the descriptor there: it is closed here in any case. The number that it has there; -1: no room, or no
// descriptor store.
int PutDescriptor(DescriptorStore& descriptor_store, int descriptor);
// A duplicate in the program's table, for a moment; -1: none.
int DuplicateDescriptor(DescriptorStore& descriptor_store, int number);
void CloseDescriptor(DescriptorStore& descriptor_store, int number);

}  // namespace gpuman::shim
