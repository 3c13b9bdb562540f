// gpuman-mover: takes memory and contexts off the GPU for the daemon, as one user; src/mover/mover.h.
#include <cstdio>
#include <cstring>

#include "base/output.h"
#include "mover/mover.h"

namespace {

constexpr const char* kUsage =
    "usage: gpuman-mover [--uid N --gid N [--groups A,B]] [--lock]\n"
    "Takes processes off the GPU and brings them back. Started by gpumand, which it talks to on its stdin.\n";
constexpr int kExitUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return gpuman::base::FinishOutput("gpuman-mover", 0);
  }
  const auto options = gpuman::suspend::ParseMoverOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr, "gpuman-mover: %s\n%s", options.error().message.c_str(), kUsage);
    return kExitUsage;
  }
  return gpuman::mover::Run(*options);
}
