#include "guard/enforcer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <utility>

#include "guard/test_machine.h"

namespace gpuman::guard {
namespace {

using testing::ElementsAre;

class FixedClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override { return At(42); }
  base::WallTime Wall() const override { return {}; }
};

class Recorder final : public Actuator {
 public:
  void Announce(JobId job, const std::string& reason, const std::string& detail) override {
    calls.push_back(fmt::format("announce {} {} '{}'", job.value, reason, detail));
  }
  base::Result<> SignalJob(JobId job, int signal, std::function<void(const SignalJobResult&)> sent) override {
    calls.push_back(fmt::format("signal {} {}", signal, job.value));
    if (fails) return base::Fail(*fails, "no");
    under_way.push_back(std::move(sent));
    return {};
  }
  void Finish(base::MonoTime at) {
    for (const auto& sent : std::exchange(under_way, {})) sent({3, at});
  }
  base::Result<> SignalProcess(base::ProcessId process, int signal) override {
    calls.push_back(fmt::format("signal {} process {}", signal, process.pid));
    if (fails) return base::Fail(*fails, "no");
    return {};
  }
  void SuspendJob(JobId job, const std::string& reason, const std::string&, base::Millis after) override {
    calls.push_back(fmt::format("suspend {} {} {}", job.value, reason, base::FormatDuration(after)));
  }
  void Note(JobId job, const std::string& line) override {
    calls.push_back(fmt::format("note {} '{}'", job.value, line));
  }
  void Emit(Event event) override {
    calls.push_back("emit " + event.kind);
    events.push_back(std::move(event));
  }

  std::optional<base::ErrorCode> fails;
  std::vector<std::function<void(const SignalJobResult&)>> under_way;
  std::vector<std::string> calls;
  std::vector<Event> events;
};

Action Order(ActionKind what, std::int64_t job, bool first = true) {
  Action action;
  action.what = what;
  action.job = JobId{job};
  action.first = first;
  action.note_in_log = true;
  action.event.kind = kHardLimit;
  action.event.job = JobId{job};
  action.event.reason = "memory_limit";
  action.event.message = "too much";
  return action;
}

TEST(Enforcer, SignalsEverybodyBeforeItTellsAnybody) {
  Recorder actuator;
  const FixedClock clock;
  Action tell;
  tell.event.kind = kSoftLimit;
  Enforcer enforcer(actuator, clock);
  enforcer.Perform({tell, Order(ActionKind::kKill, 7), Order(ActionKind::kTerminate, 8)});
  EXPECT_THAT(actuator.calls, ElementsAre("announce 7 memory_limit 'too much'", "signal 9 7",
                                          "announce 8 memory_limit 'too much'", "signal 15 8",
                                          "emit soft_limit", "note 7 'too much'", "note 8 'too much'"));
  actuator.calls.clear();
  actuator.Finish(At(43));
  EXPECT_THAT(actuator.calls, ElementsAre("emit hard_limit", "emit hard_limit")) << "when it has been sent";
}

TEST(Enforcer, WritesAWarningIntoTheLogOfTheJobItIsAbout) {
  Recorder actuator;
  const FixedClock clock;
  Action warning;
  warning.note_in_log = true;
  warning.event.kind = kSoftLimit;
  warning.event.job = JobId{7};
  warning.event.message = "much";
  Enforcer(actuator, clock).Perform({warning});
  EXPECT_THAT(actuator.calls, ElementsAre("note 7 'much'", "emit soft_limit"));
}

TEST(Enforcer, WritesDownWhenTheSignalWasSent) {
  Recorder actuator;
  const FixedClock clock;
  Enforcer enforcer(actuator, clock);
  enforcer.Perform({Order(ActionKind::kKill, 7), Order(ActionKind::kTerminate, 8)});
  actuator.Finish(At(43));
  EXPECT_EQ(actuator.events[0].data.at("sigkill_ns"), At(43).time_since_epoch().count());
  EXPECT_EQ(actuator.events[0].data.at("signalled"), 3);
  EXPECT_EQ(actuator.events[1].data.at("signal_ns"), At(43).time_since_epoch().count());
  EXPECT_FALSE(actuator.events[1].data.contains("sigkill_ns"));
}

TEST(Enforcer, AnnouncesAReasonOnceAndRepeatsSignalsSilently) {
  Recorder actuator;
  const FixedClock clock;
  Action again;
  again.what = ActionKind::kKill;
  again.job = JobId{7};
  Enforcer enforcer(actuator, clock);
  enforcer.Perform({again});
  actuator.Finish(At(43));
  EXPECT_THAT(actuator.calls, ElementsAre("signal 9 7"));
}

TEST(Enforcer, TellsWhatCouldNotBeSignalledUnlessItHadEnded) {
  const FixedClock clock;
  Action action = Order(ActionKind::kKill, 0);
  action.job.reset();
  action.process = {12, 120};
  action.note_in_log = false;
  Recorder refused;
  refused.fails = base::ErrorCode::kPermissionDenied;
  Enforcer(refused, clock).Perform({action});
  EXPECT_THAT(refused.calls, ElementsAre("signal 9 process 12", "emit hard_limit", "emit signal_failed"));
  EXPECT_EQ(refused.events[1].message, "ending it failed: no. too much");
  EXPECT_FALSE(refused.events[0].data.contains("sigkill_ns"));
  Recorder ended;
  ended.fails = base::ErrorCode::kNotFound;
  Enforcer(ended, clock).Perform({action});
  EXPECT_THAT(ended.calls, ElementsAre("signal 9 process 12", "emit hard_limit"));
}

}  // namespace
}  // namespace gpuman::guard
