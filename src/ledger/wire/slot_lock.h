// The owner of a slot is the process that holds the lock on the file's byte of the slot's number.
//
// The locks are the kernel's, of the open file description (F_OFD_SETLK). Each process of the job has a
// description of its own, which the daemon opened and locked for it; the process maps the ledger through it
// and closes the descriptor. The mapping keeps the description, and with it the lock, exactly as long as the
// process's memory lives: until it ends or executes another program. No process id, namespace, signal or
// clean exit is needed, and a program that closes all its descriptors loses nothing.
#pragma once

#include <fcntl.h>

namespace gpuman::ledger::wire {

// Takes the lock without waiting. False when another description has it.
inline bool LockSlot(int descriptor, unsigned slot) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = slot;
  lock.l_len = 1;
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

inline void UnlockSlot(int descriptor, unsigned slot) {
  struct flock lock {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = slot;
  lock.l_len = 1;
  (void)::fcntl(descriptor, F_OFD_SETLK, &lock);
}

// Whether another description than this one holds the lock.
inline bool SlotIsLocked(int descriptor, unsigned slot) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = slot;
  lock.l_len = 1;
  return ::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace gpuman::ledger::wire
