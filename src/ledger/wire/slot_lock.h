// The owner of a slot is the process that holds the lock on one byte of the ledger's file: the byte whose
// offset is the slot's number.
//
// The locks are the kernel's locks of open file descriptions (F_OFD_SETLK). Each process of the job has a
// file description of its own, which the daemon opened and locked for it. The process maps the ledger through
// this description and closes the descriptor. The mapping keeps the description, and with it the lock,
// exactly as long as the process's memory lives: until the process ends or executes another program. So the
// lock needs no process id, namespace, signal or clean exit, and a program that closes all its descriptors
// does not lose the lock.
#pragma once

#include <fcntl.h>

namespace gpuman::ledger::wire {

// The request of fcntl(2) for the byte of a slot.
inline struct flock SlotRequest(short type, unsigned slot) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = slot;
  lock.l_len = 1;
  return lock;
}

// Takes the lock without waiting. Returns false when another file description has the lock.
inline bool LockSlot(int descriptor, unsigned slot) {
  struct flock lock = SlotRequest(F_WRLCK, slot);
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

inline void UnlockSlot(int descriptor, unsigned slot) {
  struct flock lock = SlotRequest(F_UNLCK, slot);
  (void)::fcntl(descriptor, F_OFD_SETLK, &lock);
}

// Returns whether another file description than that of `descriptor` holds the lock.
inline bool SlotIsLocked(int descriptor, unsigned slot) {
  struct flock lock = SlotRequest(F_WRLCK, slot);
  return ::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace gpuman::ledger::wire
