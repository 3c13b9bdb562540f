// The C library's heap, for programs that stay for weeks and are mostly idle. Nothing happens where it is not
// glibc.
#pragma once

namespace gpuman::base {

// One arena for all threads instead of one for each, which a program with little to allocate never gives
// back. Before other threads start.
void ShareOneHeap();

// Gives the system what is free in the heap; a millisecond or so. Thread-safe.
void ReturnFreeMemory();

}  // namespace gpuman::base
