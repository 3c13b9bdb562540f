// A table of descriptors of its own for a thread of the shim's: what is in it no fork inherits, no closefrom
// of the program's reaches, and nothing of the program's stays open by it.
#pragma once

namespace gpuman::shim {

// The calling thread leaves the program's table and keeps those up to `last`; -1: none. By close_range where
// that can be: containers that forbid unshare allow it. False: it is in the program's table as before.
bool OwnDescriptors(int last);

// Closes all above `last`, for a thread with a table of its own.
void CloseAbove(int last);

}  // namespace gpuman::shim
