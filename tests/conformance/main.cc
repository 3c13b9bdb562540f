// conformance_test: checks what gpuman relies on, on the driver that the loader finds.

#include <csignal>
#include <cstdio>
#include <string_view>

#include "conformance.h"
#include "probe.h"

int main(int argc, char** argv) {
  using namespace gpuman::conformance;  // NOLINT(google-build-using-namespace)
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 3 && std::string_view(argv[1]) == "--probe") return RunProbeHere(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  if (!FindCuda() && !::testing::GTEST_FLAG(list_tests)) {
    std::fputs("conformance_test: no CUDA driver on this machine\n", stderr);
    return 77;
  }
  return RUN_ALL_TESTS();
}
