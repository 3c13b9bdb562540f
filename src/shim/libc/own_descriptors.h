// Gives a thread of the shim a table of descriptors of its own. No fork inherits a descriptor in that table,
// no closefrom of the program closes one, and the table keeps no file of the program open.
#pragma once

namespace gpuman::shim {

// Gives the calling thread a table of its own, with the descriptors of the program's table up to `last` (-1:
// none). Where only unshare works, the table also has the descriptors above `last` (CloseAbove). The function
// tries close_range first: containers that forbid unshare allow it. Returns false where the thread still uses
// the program's table.
bool OwnDescriptors(int last);

// Closes all descriptors above `last`. The calling thread has a table of its own.
void CloseAbove(int last);

}  // namespace gpuman::shim
