// gpuman-keeper: the parent process of one job; docs/keeper.md. Only the daemon starts it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/output.h"
#include "base/parse_number.h"
#include "base/process.h"
#include "keeper/client.h"
#include "keeper/keeper.h"

namespace {

constexpr const char* kUsage =
    "usage: gpuman-keeper [--foreground] --job-dir DIR [--known-records N]\n"
    "Runs and watches the job described in DIR/spec.json. Started by gpumand, which has seen record N.\n";
constexpr int kExitUsage = 2;

int Keep(const std::string& job_dir, std::uint64_t known_records, const std::function<void()>& ready) {
  const auto status = gpuman::keeper::KeepJob(job_dir, known_records, gpuman::base::SystemClock(),
                                              gpuman::base::ProcFs(), ready);
  if (status) return *status;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.error().code == gpuman::base::ErrorCode::kCorrupt ? gpuman::keeper::kExitDamaged : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string job_dir;
  std::uint64_t known_records = 0;
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
    } else if (word == "--known-records" && i + 1 < argc) {
      known_records = gpuman::base::ParseNumber<std::uint64_t>(argv[++i]).value_or(0);
    } else {
      job_dir.clear();
      break;
    }
  }
  if (job_dir.empty()) {
    std::fputs(kUsage, stderr);
    return kExitUsage;
  }
  const auto keep = [&](const std::function<void()>& ready) { return Keep(job_dir, known_records, ready); };
  return foreground ? keep([] {}) : gpuman::keeper::Detach(keep);
}
