// The C library's heap, for programs that run for weeks and are mostly idle. Without glibc these functions do
// nothing.
#pragma once

namespace gpuman::base {

// Makes all threads use one arena instead of one for each thread. A program that allocates little never gives
// those arenas back. Call it before other threads start.
void ShareOneHeap();

// Gives the free memory of the heap back to the system. Takes about a millisecond. Thread-safe.
void ReturnFreeMemory();

}  // namespace gpuman::base
