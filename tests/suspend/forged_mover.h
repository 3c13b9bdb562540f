// A mover whose user makes it say something else: this program again, in a mover's place. For tests.
#pragma once

namespace gpuman::suspend {

// --forge HOW FILE: reports that it is ready, and then, at each request:
//   honest     answers that it is done
//   lingering  answers with sockets whose last close waits until FILE exists, two messages one after the
//              other
//   holding    reports a thousand descriptors that it has taken over, and then stands still
int RunForgedMover(int argc, char** argv);

}  // namespace gpuman::suspend
