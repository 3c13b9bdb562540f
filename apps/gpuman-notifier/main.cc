// gpuman-notifier: sends webhooks and mails for the daemon; src/notifier/notifier.h.
#include <cstdio>
#include <cstring>

#include "base/output.h"
#include "notifier/notifier.h"

namespace {

constexpr const char* kUsage =
    "usage: gpuman-notifier\n"
    "Sends webhooks and mails. Started by gpumand, which it talks to on its stdin.\n";
constexpr int kExitUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool help = std::strcmp(argv[1], "--help") == 0;
    std::fputs(kUsage, help ? stdout : stderr);
    return help ? gpuman::base::FinishOutput("gpuman-notifier", 0) : kExitUsage;
  }
  return gpuman::notifier::Run();
}
