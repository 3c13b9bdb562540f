// gpuman-keeper: the parent process of one job; docs/keeper.md. Only the daemon starts it.
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/output.h"
#include "base/process.h"
#include "keeper/keeper.h"

namespace {

constexpr const char* kUsage =
    "usage: gpuman-keeper [--foreground] --job-dir DIR\n"
    "Runs and watches the job described in DIR/spec.json. Started by gpumand.\n";
constexpr int kExitUsage = 2;

int Keep(const std::string& job_dir, const std::function<void()>& ready) {
  const gpuman::base::SystemClock clock;
  const gpuman::base::ProcFs processes;
  const auto status = gpuman::keeper::KeepJob(job_dir, clock, processes, ready);
  if (status) return *status;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string job_dir;
  bool foreground = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help") {
      std::fputs(kUsage, stdout);
      return gpuman::base::FinishOutput("gpuman-keeper", 0);
    }
    if (word == "--foreground") {
      foreground = true;
    } else if (word == "--job-dir" && i + 1 < argc) {
      job_dir = argv[++i];
    } else {
      std::fputs(kUsage, stderr);
      return kExitUsage;
    }
  }
  if (job_dir.empty()) {
    std::fputs(kUsage, stderr);
    return kExitUsage;
  }
  if (foreground) return Keep(job_dir, [] {});
  return gpuman::keeper::Detach([&](const std::function<void()>& ready) { return Keep(job_dir, ready); });
}
