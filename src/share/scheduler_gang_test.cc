// Tests jobs on several GPUs (gangs) among jobs on one, event by event like scheduler_test.cc.
#include "share/test_scheduler.h"

namespace gpuman::share {
namespace {

using testing::HasSubstr;

constexpr TenantId kGang{11}, kOther{12};

class SchedulerGangs : public ShareScheduler {
 protected:
  SchedulerGangs() {
    for (const char* gpu : {"a", "b", "c"}) Tell(event::CapacityChanged{gpu, GiB(16)});
  }
  using Memory = std::map<std::string, MemoryDemand>;
  static Memory Resident(const std::vector<std::string>& gpus, base::Bytes bytes) {
    Memory memory;
    for (const auto& gpu : gpus) memory[gpu] = {bytes, {}, {}, {}};
    return memory;
  }
  void Runs(TenantId tenant, const Memory& memory) {
    Tell(event::Joined{tenant});
    Tell(event::DemandChanged{tenant, memory});
    Is(tenant, TenantActivity::kBusy);
  }
  // Its memory is away, and it does not want a turn yet.
  void Rests(TenantId tenant, const std::vector<std::string>& gpus, base::Bytes bytes) {
    Memory memory;
    for (const auto& gpu : gpus) memory[gpu] = {{}, bytes, {}, {}};
    Tell(event::Joined{tenant, {}, GatePosition::kClosed});
    Tell(event::ActivityChanged{tenant, TenantActivity::kIdle, now_});
    Tell(event::DemandChanged{tenant, memory});
  }
  void Leaves(const action::Evict& order) {
    Tell(event::MovedOut{order.tenant, order.gpu, order.bytes});
    Tell(event::EvictDone{order.tenant, order.gpu, order.order});
  }
  // All of its memory comes, as room is granted.
  void ComesBack(TenantId tenant) {
    const auto restore = One<action::Restore>();
    EXPECT_EQ(restore.tenant, tenant);
    for (const auto& grant : Said<action::MemoryGrant>())
      Tell(event::MovedIn{grant.tenant, grant.gpu, grant.bytes});
    Tell(event::RestoreDone{tenant, restore.order});
  }
  void ReportDemand(TenantId tenant, const Memory& memory) { Tell(event::DemandChanged{tenant, memory}); }
  bool IsIn(TenantId tenant) {
    for (const auto& gpu : scheduler_.View(now_).gpus)
      for (const auto& each : gpu.tenants)
        if (each.tenant == tenant) return each.in_run_set;
    return false;
  }
  std::set<TenantId> Closed() {
    std::set<TenantId> closed;
    for (const auto& close : closes_ = Said<action::Close>()) closed.insert(close.tenant);
    return closed;
  }
  std::vector<action::Close> closes_;
};

TEST_F(SchedulerGangs, LeaveAllTheirGpusAndOpenWhenAllOfTheirMemoryIsBack) {
  Runs(kGang, Resident({"a", "b"}, GiB(10)));
  Rests(kOther, {"a", "b"}, GiB(10));
  Pass(60s);
  Is(kOther, TenantActivity::kWaiting);
  CloseNow(kGang);
  const auto out = Said<action::Evict>();
  ASSERT_EQ(out.size(), 2u);
  const auto restore = One<action::Restore>();
  Leaves(out[0]);
  for (const auto& grant : Said<action::MemoryGrant>())
    Tell(event::MovedIn{grant.tenant, grant.gpu, grant.bytes});
  EXPECT_TRUE(Said<action::Open>().empty()) << "the other GPU lacks its memory";
  Leaves(out[1]);
  for (const auto& grant : Said<action::MemoryGrant>())
    Tell(event::MovedIn{grant.tenant, grant.gpu, grant.bytes});
  EXPECT_TRUE(Said<action::Open>().empty());
  Tell(event::RestoreDone{kOther, restore.order});
  ReportDemand(kOther, Resident({"a", "b"}, GiB(10)));
  EXPECT_EQ(One<action::Open>().tenant, kOther);
}

TEST_F(SchedulerGangs, RunBesideASingleJobOnlyIfBothFit) {
  Runs(kGang, Resident({"a", "b"}, GiB(10)));
  Rests(kA, {"b"}, GiB(6));
  Rests(kB, {"b"}, GiB(7));
  Is(kA, TenantActivity::kWaiting);
  EXPECT_TRUE(Closed().empty());
  ComesBack(kA);
  ReportDemand(kA, Resident({"b"}, GiB(6)));
  EXPECT_EQ(One<action::Open>().tenant, kA);
  Pass(60s);
  Is(kB, TenantActivity::kWaiting);
  EXPECT_EQ(Closed(), std::set{kGang}) << "job 1 fits beside job 2";
}

TEST_F(SchedulerGangs, WaitForTwoSingleJobsAndComeWhenBothHaveHadTheirTurn) {
  Runs(kA, Resident({"a"}, GiB(10)));
  Rests(kGang, {"a", "b"}, GiB(10));
  Pass(800ms);
  Runs(kB, Resident({"b"}, GiB(10)));
  Is(kGang, TenantActivity::kWaiting);
  EXPECT_TRUE(Closed().empty());
  std::set<TenantId> closed;
  for (int i = 0; i < 20 && closed.empty(); ++i) {
    Tick();
    closed = Closed();
  }
  EXPECT_EQ(closed, (std::set{kA, kB})) << "none leaves before the other may: the place would be empty";
}

TEST_F(SchedulerGangs, ASingleJobThatFitsRunsMeanwhileAndGivesWay) {
  Runs(kA, Resident({"a"}, GiB(10)));
  Runs(kC, Resident({"c"}, GiB(1)));
  Rests(kGang, {"a", "b", "c"}, GiB(10));
  Is(kGang, TenantActivity::kWaiting);
  Rests(kB, {"b"}, GiB(10));
  Is(kB, TenantActivity::kWaiting);
  ComesBack(kB);
  ReportDemand(kB, Resident({"b"}, GiB(10)));
  EXPECT_EQ(One<action::Open>().tenant, kB) << "nobody else has a use for that GPU now";
  std::set<TenantId> closed;
  for (int i = 0; i < 20 && closed.empty(); ++i) {
    Tick();
    closed = Closed();
  }
  EXPECT_EQ(closed, (std::set{kA, kB})) << "job 2 began its turn later, but came in only meanwhile";
}

TEST_F(SchedulerGangs, AHandOverOnOneGpuDoesNotHoldUpThoseOnOthers) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kA, Resident({"a"}, GiB(10)));
  Runs(kB, Resident({"b"}, GiB(10)));
  Rests(kC, {"a"}, GiB(10));
  Rests(kOther, {"b"}, GiB(10));
  Pass(60s);
  Is(kC, TenantActivity::kWaiting);
  EXPECT_EQ(Closed(), std::set{kA});
  Is(kOther, TenantActivity::kWaiting);
  EXPECT_EQ(Closed(), std::set{kB}) << "although job 1 has not left yet";
  EXPECT_TRUE(IsIn(kGang));
}

TEST_F(SchedulerGangs, AWaiterForOneGpuDoesNotHoldUpAnother) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kB, Resident({"b"}, GiB(10)));
  Rests(kC, {"a"}, GiB(10));
  Rests(kOther, {"b"}, GiB(10));
  Pass(60s);
  Runs(kA, Resident({"a"}, GiB(10)));
  Is(kC, TenantActivity::kWaiting);
  EXPECT_TRUE(Closed().empty()) << "the turn of job 1 has only begun";
  Is(kOther, TenantActivity::kWaiting);
  EXPECT_EQ(Closed(), std::set{kB});
}

TEST_F(SchedulerGangs, AddedGpuJoinsDomainsAndItsHandOverCounts) {
  Runs(kB, Resident({"b"}, GiB(10)));
  Rests(kC, {"b"}, GiB(10));
  Runs(kGang, Resident({"a"}, GiB(1)));
  Pass(60s);
  Is(kC, TenantActivity::kWaiting);
  CloseNow(kB);
  Pass(2s);
  ReportDemand(kGang, {{"a", {GiB(1), {}, {}, {}}}, {"b", {}}});
  Leaves(One<action::Evict>());
  ReportDemand(kB, {{"b", {GiB(6), GiB(4), {}, {}}}});
  ComesBack(kC);
  ReportDemand(kC, Resident({"b"}, GiB(10)));
  EXPECT_EQ(One<action::Open>().tenant, kC);
  const auto view = scheduler_.View(now_);
  EXPECT_EQ(view.gpus.at(1).gpu, "b");
  EXPECT_EQ(view.gpus.at(1).hand_overs, 1u);
  EXPECT_DOUBLE_EQ(view.gpus.at(1).hand_over_times.sum(), 2.0)
      << "from its begin, before the domains were one";
}

// Gangs that have started a moment ago, and may need more memory than they have.
class SchedulerGrowingJobs : public SchedulerGangs {
 protected:
  // Returns how many of the joined jobs have their gates open; `open_` names them.
  std::size_t Open() {
    open_.clear();
    for (const TenantId tenant : {kGang, kOther})
      if (!shut_.contains(tenant)) open_.push_back(tenant);
    return open_.size();
  }
  std::vector<TenantId> open_;
  std::set<TenantId> shut_;
  // The gates of those that are to close do so, until a decision leaves all as it is.
  void Settle() {
    for (auto closes = Said<action::Close>(); !closes.empty(); closes = Said<action::Close>()) {
      for (const auto& close : closes) {
        shut_.insert(close.tenant);
        Tell(event::GateClosed{close.tenant, close.order});
        Is(close.tenant, TenantActivity::kWaiting);
      }
    }
    for (const auto& open : Said<action::Open>()) shut_.erase(open.tenant);
  }
};

TEST_F(SchedulerGrowingJobs, TwoOnTheSameGpusTakeTurnsThoughBothFit) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kOther, Resident({"b", "c"}, GiB(1)));
  Settle();
  EXPECT_NE(IsIn(kGang), IsIn(kOther));
  const bool before = IsIn(kGang);
  for (int i = 0; i < 4 && IsIn(kGang) == before; ++i) Tick();
  Settle();
  EXPECT_NE(IsIn(kGang), before);
  EXPECT_NE(IsIn(kOther), IsIn(kGang));
  EXPECT_TRUE(Said<action::Evict>().empty());
}

TEST_F(SchedulerGrowingJobs, TwoRunTogetherOnceOneHasStoppedGrowing) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  Settle();
  Span passed{};
  for (int i = 0; i < 100 && !(IsIn(kGang) && IsIn(kOther)); ++i) {
    const auto before = now_;
    Tick();
    Settle();
    passed += now_ - before;
  }
  EXPECT_TRUE(IsIn(kGang) && IsIn(kOther));
  EXPECT_GE(passed, 10s) << "one of them has run for so long";
  EXPECT_FALSE(scheduler_.IsContended("a"));
}

// Each might get the memory on one GPU that the other needs, before it is known that both need both.
TEST_F(SchedulerGrowingJobs, TwoWithoutMemoryTakeTurns) {
  for (const TenantId tenant : {kGang, kOther}) {
    Tell(event::Joined{tenant, {}, GatePosition::kOpen, {}, {"a", "b"}});
    ReportDemand(tenant, {});
  }
  Settle();
  EXPECT_EQ(Open(), 1u);
  const TenantId runs = open_.front(), waits = runs == kGang ? kOther : kGang;
  ReportDemand(runs, Resident({"a"}, GiB(1)));
  EXPECT_EQ(Open(), 1u);
  Tick();
  Settle();
  ASSERT_EQ(Open(), 1u);
  EXPECT_EQ(open_.front(), waits);
}

TEST_F(SchedulerGrowingJobs, SecondComesInOnlyWhenFirstIsAtRest) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  Settle();
  const TenantId runs = IsIn(kGang) ? kGang : kOther, waits = runs == kGang ? kOther : kGang;
  Tick();
  const auto close = One<action::Close>();
  EXPECT_EQ(close.tenant, runs);
  EXPECT_TRUE(Said<action::Open>().empty());
  // It needs more memory before it comes to rest, and gets it.
  Memory more = Resident({"a", "b"}, GiB(1));
  more["a"].wants = GiB(1);
  ReportDemand(runs, more);
  Tell(event::GateNotClosed{runs, close.order, "it waits for room", false, true});
  EXPECT_EQ(One<action::Open>().tenant, runs);
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{runs, "a", GiB(1), false}));
  EXPECT_FALSE(IsIn(waits));
  ReportDemand(runs, Resident({"a", "b"}, GiB(2)));
  for (int i = 0; i < 4 && !IsIn(waits); ++i) {
    Tick();
    Settle();
  }
  EXPECT_TRUE(IsIn(waits));
  EXPECT_FALSE(IsIn(runs));
}

TEST_F(SchedulerGrowingJobs, JobThatHasStoppedGrowingIsNotExpectedOnFurtherGpus) {
  Tell(event::Joined{kGang, {}, GatePosition::kOpen, {}, {"a", "b"}});
  ReportDemand(kGang, Resident({"a"}, GiB(1)));
  EXPECT_EQ(scheduler_.View(now_).gpus.at(1).tenants.size(), 0u) << "it has nothing there";
  Pass(11s);
  ReportDemand(kGang, Resident({"a"}, GiB(1)));
  Tell(event::Joined{kOther, {}, GatePosition::kOpen, {}, {"a", "b"}});
  ReportDemand(kOther, Resident({"b"}, GiB(1)));
  Pass(11s);
  ReportDemand(kOther, Resident({"b"}, GiB(1)));
  EXPECT_TRUE(Closed().empty());
  // So a job on the other GPU alone does not wait for it.
  Rests(kC, {"b"}, GiB(16));
  Is(kC, TenantActivity::kWaiting);
  Pass(60s);
  Tell(event::Tick{});
  EXPECT_EQ(Closed(), (std::set<TenantId>{kOther}));
}

TEST_F(SchedulerGrowingJobs, JobThatAllocatesStillCountsAsGrowing) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  for (std::uint64_t i = 2; i < 5; ++i) {
    Pass(9s);
    ReportDemand(kGang, Resident({"a", "b"}, GiB(i)));
  }
  Pass(1s);
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  EXPECT_EQ(Closed().size(), 1u);
}

TEST_F(SchedulerGrowingJobs, GrowingJobRunsBesideJobThatHasStoppedGrowing) {
  Runs(kGang, Resident({"a", "b"}, GiB(4)));
  Pass(11s);
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  EXPECT_TRUE(Closed().empty());
}

TEST_F(SchedulerGrowingJobs, IdleJobWithMemoryHasStoppedGrowingAfterAMinute) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Is(kGang, TenantActivity::kIdle);
  Pass(50s);
  Tell(event::Tick{});
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  Is(kOther, TenantActivity::kIdle);
  Settle();
  EXPECT_EQ(Open(), 1u);
  for (int i = 0; i < 7; ++i) {
    Pass(10s);
    Tell(event::Tick{});
    Settle();
  }
  EXPECT_EQ(Open(), 2u);
}

TEST_F(SchedulerGrowingJobs, JobWithoutMemoryStillCountsAsGrowing) {
  for (const TenantId tenant : {kGang, kOther}) {
    Tell(event::Joined{tenant, {}, GatePosition::kOpen, {}, {"a", "b"}});
    ReportDemand(tenant, {});
    Pass(600s);
  }
  Settle();
  EXPECT_EQ(Open(), 1u);
}

TEST_F(SchedulerGrowingJobs, JobThatWaitsForRoomStillCountsAsGrowing) {
  Runs(kGang, Resident({"a", "b"}, GiB(4)));
  Pass(11s);
  Memory more = Resident({"a", "b"}, GiB(4));
  more["a"].wants = GiB(1);
  ReportDemand(kGang, more);
  ReportDemand(kGang, Resident({"a", "b"}, GiB(5)));
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  EXPECT_EQ(Closed().size(), 1u);
}

TEST_F(SchedulerGrowingJobs, GrowingJobRunsBesideSingleJobs) {
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kB, Resident({"a"}, GiB(1)));
  Runs(kC, Resident({"b"}, GiB(1)));
  EXPECT_TRUE(Closed().empty());
}

TEST_F(SchedulerGrowingJobs, GrowingJobsStayOpenWhileTurnsArePaused) {
  SchedulerSettings settings;
  settings.pause = true;
  Tell(event::SettingsChanged{settings});
  Runs(kGang, Resident({"a", "b"}, GiB(1)));
  Runs(kOther, Resident({"a", "b"}, GiB(1)));
  EXPECT_TRUE(Closed().empty());
}

// Two gangs have all of the memory, and each waits for more of it on one of its GPUs.
class SchedulerDeadlocks : public SchedulerGangs {
 protected:
  void Grow(TenantId tenant, const std::string& gpu) {
    Memory memory = Resident({"a", "b"}, GiB(7));
    memory[gpu].wants = GiB(4);
    ReportDemand(tenant, memory);
  }
  void Refuse(bool for_room = true) {
    const auto close = One<action::Close>();
    Pass(5s);
    Tell(event::GateNotClosed{close.tenant, close.order, "process 7 works on GPU 0", true, for_room});
  }
  void BothGrow() {
    Runs(kGang, Resident({"a", "b"}, GiB(7)));
    Pass(11s);
    Runs(kOther, Resident({"a", "b"}, GiB(7)));
    Pass(11s);
    Grow(kGang, "a");
    Pass(1s);
    Grow(kOther, "b");
  }
  void Deadlock(bool for_room = true) {
    BothGrow();
    Refuse();
    Refuse(for_room);
    Said<action::EventReport>();
    Said<action::Open>();
  }
};

// It has the room soon in most cases: two jobs take their memory as they start, for example.
TEST_F(SchedulerDeadlocks, RefusalForRoomIsReportedTheThirdTime) {
  BothGrow();
  std::map<TenantId, int> refused;
  while (refused[kGang] < 4 && refused[kOther] < 4) {
    auto close = Said<action::Close>();
    for (int tick = 0; close.empty() && tick < 20; ++tick) {
      Tick();
      close = Said<action::Close>();
    }
    ASSERT_EQ(close.size(), 1u);
    const TenantId tenant = close.front().tenant;
    Tell(event::GateNotClosed{tenant, close.front().order, "it waits for room", false, true});
    EXPECT_EQ(Said<action::EventReport>().size(), ++refused[tenant] == 3 ? 1u : 0u) << refused[tenant];
  }
}

// It was given the room a moment ago, and has not taken it yet.
TEST_F(SchedulerDeadlocks, RefusalDespiteGrantedRoomIsNotReportedAtOnce) {
  Runs(kGang, Resident({"a", "b"}, GiB(5)));
  Rests(kC, {"b"}, GiB(12));
  Memory memory = Resident({"a", "b"}, GiB(5));
  memory["a"].wants = GiB(4);
  ReportDemand(kGang, memory);
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kGang, "a", GiB(4), false}));
  Pass(60s);
  Is(kC, TenantActivity::kWaiting);
  const auto close = One<action::Close>();
  EXPECT_EQ(close.tenant, kGang);
  Tell(event::GateNotClosed{kGang, close.order, "it waits for room", false, true});
  EXPECT_TRUE(Said<action::EventReport>().empty());
}

TEST_F(SchedulerDeadlocks, JobIsAskedAgainAtOnceWhenItHasItsRoom) {
  BothGrow();
  const auto close = One<action::Close>();
  Pass(5s);
  Tell(event::GateNotClosed{close.tenant, close.order, "it waits for room", true, true});
  const auto other = One<action::Close>();
  EXPECT_NE(other.tenant, close.tenant);
  Tell(event::GateClosed{other.tenant, other.order});
  Is(other.tenant, TenantActivity::kWaiting);
  Leaves(One<action::Evict>());
  EXPECT_EQ(One<action::MemoryGrant>().tenant, close.tenant);
  Pass(2s);
  ReportDemand(close.tenant, Resident({"a", "b"}, GiB(9)));
  const auto has_it = now_;
  Tick();
  EXPECT_LT(now_ - has_it, 30s) << "it kept its place for 50 s only for want of room";
  EXPECT_EQ(Closed(), (std::set<TenantId>{close.tenant}));
}

TEST_F(SchedulerDeadlocks, OtherReasonAfterRefusalForRoomIsReported) {
  BothGrow();
  const auto close = One<action::Close>();
  Tell(event::GateNotClosed{close.tenant, close.order, "it waits for room", false, true});
  EXPECT_TRUE(Said<action::EventReport>().empty());
  auto again = Said<action::Close>();
  for (int tick = 0; tick < 20 && (again.empty() || again.front().tenant != close.tenant); ++tick) {
    Tick();
    again = Said<action::Close>();
  }
  ASSERT_EQ(again.size(), 1u);
  Said<action::EventReport>();  // of the other one
  Tell(event::GateNotClosed{close.tenant, again.front().order, "process 7 works", true});
  EXPECT_THAT(One<action::EventReport>().message, HasSubstr("process 7 works"));
}

TEST_F(SchedulerDeadlocks, AllocationOfLaterJobIsDeniedAfterAWhileWithTheReason) {
  Deadlock();
  EXPECT_FALSE(scheduler_.IsDenied(kOther));
  const auto began = now_;
  Tick();
  EXPECT_LE(now_ - began, 4 * 5s);
  EXPECT_EQ(One<action::Deny>(), (action::Deny{kOther, "b"}));
  EXPECT_TRUE(scheduler_.IsDenied(kOther));
  EXPECT_FALSE(scheduler_.IsDenied(kGang));
  const auto report = One<action::EventReport>();
  EXPECT_EQ(std::make_pair(report.tenant, report.kind),
            std::make_pair(kOther, std::string("share_move_failed")));
  EXPECT_THAT(report.message, HasSubstr("job 11 has the room and waits for memory that this job has"));
}

// Its program may take a while to take notice.
TEST_F(SchedulerDeadlocks, DenialIsReportedOnce) {
  Deadlock();
  Tick();
  EXPECT_EQ(Said<action::Deny>().size(), 1u);
  EXPECT_EQ(Said<action::EventReport>().size(), 1u);
  const auto again = One<action::Close>();
  EXPECT_EQ(again.tenant, kOther);
  Tell(event::GateNotClosed{kOther, again.order, "it waits for room", false, true});
  Said<action::EventReport>();
  Tell(event::CapacityChanged{"b", GiB(16)});
  EXPECT_TRUE(scheduler_.IsDenied(kOther));
  EXPECT_TRUE(Said<action::Deny>().empty());
  for (const auto& report : Said<action::EventReport>()) EXPECT_NE(report.kind, "share_move_failed");
}

TEST_F(SchedulerDeadlocks, FirstJobGetsRoomWhenLaterJobLeaves) {
  Deadlock();
  Tick();
  Said<action::Deny>();
  Tell(event::Left{kOther});
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kGang, "a", GiB(4), false}));
}

TEST_F(SchedulerDeadlocks, LaterJobYieldsAfterItsDenial) {
  Deadlock();
  Tick();
  EXPECT_EQ(Said<action::Deny>().size(), 1u);
  ReportDemand(kOther, Resident({"a", "b"}, GiB(7)));
  EXPECT_FALSE(scheduler_.IsDenied(kOther)) << "another allocation may wait";
  const auto asked = One<action::Close>();
  EXPECT_EQ(asked.tenant, kOther) << "what was in its way is over";
  Tell(event::GateClosed{kOther, asked.order});
  Leaves(One<action::Evict>());
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kGang, "a", GiB(4), false}));
}

// Both wait on one GPU, so there both are at rest, whatever they do on the other.
class SchedulerDeadlocksOnOneGpu : public SchedulerDeadlocks {
 protected:
  SchedulerDeadlocksOnOneGpu() {
    Runs(kGang, Resident({"a", "b"}, GiB(7)));
    Runs(kOther, Resident({"a", "b"}, GiB(7)));
    Grow(kGang, "a");
    Pass(1s);
    Grow(kOther, "a");
    Refuse();
    Refuse();
    Said<action::EventReport>();
    Said<action::Open>();
  }
};

TEST_F(SchedulerDeadlocksOnOneGpu, LaterJobClosesInPartAndFirstGetsRoom) {
  const auto close = One<action::Close>();
  EXPECT_EQ(std::make_pair(close.tenant, close.in_part), std::make_pair(kOther, true));
  ReportDemand(kOther, {{"a", {GiB(7), {}, {}, GiB(4)}}, {"b", {{}, {}, GiB(7), {}}}});
  Tell(event::GateClosed{kOther, close.order});
  Leaves(One<action::Evict>());
  EXPECT_EQ(One<action::MemoryGrant>(), (action::MemoryGrant{kGang, "a", GiB(4), false}));
  EXPECT_FALSE(scheduler_.IsDenied(kOther));
  ReportDemand(kGang, {{"a", {GiB(11), {}, {}, {}}}, {"b", {GiB(7), {}, {}, {}}}});
  Pass(60s);
  Tell(event::Tick{});
  const auto next = One<action::Close>();
  EXPECT_EQ(std::make_pair(next.tenant, next.in_part), std::make_pair(kGang, false))
      << "it comes to rest now";
}

TEST_F(SchedulerDeadlocksOnOneGpu, AllocationOfLaterJobIsDeniedWhenItCannotCloseInPart) {
  const auto close = One<action::Close>();
  Tell(event::GateNotClosed{kOther, close.order, "process 7 works on GPU 0", false, true});
  Said<action::Open>();
  for (int i = 0; i < 40 && !scheduler_.IsDenied(kOther) && !scheduler_.IsDenied(kGang); ++i) {
    Tick();
    for (const auto& each : Said<action::Close>()) {
      EXPECT_FALSE(each.in_part && each.tenant == kOther) << "it has tried";
      Tell(event::GateNotClosed{each.tenant, each.order, "process 7 works on GPU 0", false, true});
    }
  }
  EXPECT_TRUE(scheduler_.IsDenied(kOther) || scheduler_.IsDenied(kGang));
}

TEST_F(SchedulerDeadlocks, NoAllocationIsDeniedWhereEvictionMakesRoom) {
  Runs(kGang, Resident({"a", "b"}, GiB(7)));
  Runs(kOther, Resident({"a", "b"}, GiB(5)));
  Runs(kA, Resident({"a"}, GiB(3)));
  Grow(kGang, "a");
  Pass(200s);
  Tell(event::Tick{});
  EXPECT_FALSE(scheduler_.IsDenied(kGang));
  EXPECT_TRUE(Said<action::Deny>().empty());
}

TEST_F(SchedulerDeadlocks, JobThatDoesNotYieldForAnotherReasonIsNoDeadlock) {
  Deadlock(/*for_room=*/false);
  Pass(60s);
  Tell(event::Tick{});
  EXPECT_FALSE(scheduler_.IsDenied(kOther));
  EXPECT_FALSE(scheduler_.IsDenied(kGang));
}

}  // namespace
}  // namespace gpuman::share
