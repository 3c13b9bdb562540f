// A mover that its user has say something else: this program again, in a mover's place. For tests.
#pragma once

namespace gpuman::suspend {

// --forge HOW FILE: says that it is ready, and then, at each request:
//   honest     answers that it is done
//   lingering  answers with sockets whose last close waits until there is a FILE, two messages one after the
//              other
//   holding    tells of a thousand descriptors that it has taken over, and then stands still
int RunForgedMover(int argc, char** argv);

}  // namespace gpuman::suspend
