#include "trace/symbols.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include "base/fd.h"

namespace gpuman::trace {
namespace {

// A user may write any trace. Its modules may have the paths of devices, of which opening alone has effects.
// The master of a terminal notices for good that somebody has opened the other end.
TEST(Symbols, OpenNoDeviceThatATraceNames) {
  const base::Fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master.ok() || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0)
    GTEST_SKIP() << "no terminals here";
  MappedBinary module;
  module.path = ::ptsname(master.get());
  module.build_id = "id";
  Symbols symbols;
  Frame frame;
  symbols.Name(module, 0x1000, frame);
  EXPECT_EQ(frame.function, "");
  pollfd state{master.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0) << "it was opened: " << state.revents;
}

}  // namespace
}  // namespace gpuman::trace
