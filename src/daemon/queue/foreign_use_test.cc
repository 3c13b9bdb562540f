#include "daemon/queue/foreign_use.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

gpu::AttributedProcess Process(pid_t pid, const char* name, uid_t uid) {
  gpu::AttributedProcess process;
  process.id = {pid, 7};
  process.uid = uid;
  process.name = name;
  process.memory = base::MiB(100);
  return process;
}

std::string NameOf(uid_t uid) { return uid == 1 ? "ann" : "bob"; }

class ForeignTest : public ::testing::Test {
 protected:
  ForeignUse Use() const {
    return ForeignOn(status, rules, {"Xorg"}, NameOf,
                     [this](const base::ProcessId& id) { return id != dead; });
  }
  guard::GpuStatus status{{0, "GPU-a", "H200", "", base::GiB(80)}, {}, {}};
  std::vector<IgnoreRule> rules;
  base::ProcessId dead{};
};

TEST_F(ForeignTest, AProcessOfNobodysJobTakesTheGpu) {
  status.processes = {Process(10, "python", 1)};
  const ForeignUse use = Use();
  EXPECT_TRUE(use.unmanaged);
  EXPECT_EQ(use.memory, base::MiB(100));
  EXPECT_EQ(use.holder, "pid 10 (python, user ann)");
}

TEST_F(ForeignTest, JobsDisplayServersAndWhatHasEndedDoNot) {
  status.processes = {Process(10, "python", 1), Process(11, "Xorg", 0), Process(12, "python", 2),
                      Process(13, "gpuman-mover", 1)};
  status.processes[0].job = base::JobId{3};
  status.processes[3].ours = true;
  dead = {12, 7};
  const ForeignUse use = Use();
  EXPECT_FALSE(use.unmanaged) << use.holder;
  EXPECT_EQ(use.memory, base::MiB(200)) << "the display server's and the mover's is gone all the same";
}

TEST_F(ForeignTest, AProcessThatHasTheNameOfAMoverIsAProcessLikeAnyOther) {
  const auto process = Process(10, "gpuman-mover", 1);
  status.processes = {process};
  EXPECT_TRUE(Use().unmanaged);
  EXPECT_EQ(Use().holder, "pid 10 (gpuman-mover, user ann)");
  EXPECT_TRUE(IsHoarding(process, std::chrono::hours(2), std::chrono::hours(1), {}));
}

TEST_F(ForeignTest, ARuleIgnoresWhatAllOfItFits) {
  const auto process = Process(10, "python", 1);
  struct RuleRow {
    const char* what;
    IgnoreRule rule;
    bool ignored;
  };
  const std::vector<RuleRow> table{
      {"nothing said", {}, false},
      {"only a GPU", {.gpu = "GPU-a"}, false},
      {"the process", {.process = base::ProcessId{10, 7}}, true},
      {"another of the same number", {.process = base::ProcessId{10, 8}}, false},
      {"the user", {.user = "ann"}, true},
      {"another user", {.user = "bob"}, false},
      {"the name", {.name = "python"}, true},
      {"the name on another GPU", {.name = "python", .gpu = "GPU-b"}, false},
      {"the name of another user", {.user = "bob", .name = "python"}, false},
  };
  for (const RuleRow& row : table)
    EXPECT_EQ(Ignores({row.rule}, process, "GPU-a", NameOf), row.ignored) << row.what;
  status.processes = {process};
  rules = {{.name = "python"}};
  EXPECT_FALSE(Use().unmanaged);
  EXPECT_EQ(Use().memory, base::MiB(100)) << "what it has is not to be given to others";
}

base::MonoTime SecondAt(int second) { return base::MonoTime(std::chrono::seconds(second)); }

TEST_F(ForeignTest, AProcessIsIdleSinceItWasLastSeenWorking) {
  const base::ProcessId first{10, 7}, second{11, 7};
  ProcessIdleTracker idle;
  const auto look = [&](int at, std::optional<std::vector<pid_t>> busy) {
    status.sample.taken_at = SecondAt(at);
    status.sample.busy = std::move(busy);
    idle.Observe(status);
  };
  status.processes = {Process(10, "python", 1), Process(11, "python", 2)};
  look(0, std::nullopt);
  EXPECT_FALSE(idle.IdleOf("GPU-a", first, SecondAt(50))) << "nobody looked";
  look(100, {{10}});
  look(110, {{11}});
  look(120, std::nullopt);
  EXPECT_EQ(idle.IdleOf("GPU-a", first, SecondAt(130)), std::chrono::seconds(30));
  EXPECT_EQ(idle.IdleOf("GPU-a", second, SecondAt(130)), std::chrono::seconds(20));
  EXPECT_FALSE(idle.IdleOf("GPU-b", first, SecondAt(130)));
  status.processes = {Process(10, "python", 1)};
  look(140, std::vector<pid_t>{});
  EXPECT_EQ(idle.IdleOf("GPU-a", first, SecondAt(140)), std::chrono::seconds(40));
  EXPECT_FALSE(idle.IdleOf("GPU-a", second, SecondAt(140))) << "it has gone";
}

TEST_F(ForeignTest, WhoIsIdleForLongIsSuspected) {
  const std::chrono::hours patience{1}, longer{2};
  const base::Millis shorter = std::chrono::minutes(5);
  auto process = Process(10, "python", 1);
  EXPECT_TRUE(IsHoarding(process, longer, patience, {}));
  EXPECT_FALSE(IsHoarding(process, shorter, patience, {}));
  EXPECT_FALSE(IsHoarding(process, std::nullopt, patience, {})) << "nobody knows";
  EXPECT_FALSE(IsHoarding(process, longer, base::Millis{0}, {})) << "nobody wants to know";
  EXPECT_FALSE(IsHoarding(Process(11, "Xorg", 0), longer, patience, {"Xorg"}));
  process.job = base::JobId{3};
  EXPECT_FALSE(IsHoarding(process, longer, patience, {}));
}

}  // namespace
}  // namespace gpuman::daemon
