// Tests properties that must hold for any submissions: made-up queues run in simulated time.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <random>

#include "queue/quota_tracker.h"
#include "queue/test_simulator.h"
#include "spec/json.h"

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kGpus = 6;

Request AnyRequest() {
  Request request;
  request.gpus.count =
      *rc::gen::weightedElement<int>({{1, 0}, {8, 1}, {4, 2}, {2, 4}, {1, static_cast<int>(kGpus)}});
  if (*rc::gen::inRange(0, 4) != 0) request.time_limit = std::chrono::minutes(*rc::gen::inRange(1, 400));
  if (request.gpus.count > 0 && *rc::gen::inRange(0, 2) == 0) {
    request.share = true;
    request.memory_on_each = base::GiB(*rc::gen::inRange<std::uint64_t>(1, 80));
  } else if (request.gpus.count > 0 && *rc::gen::inRange(0, 4) == 0) {
    request.memory_on_each = base::GiB(*rc::gen::inRange<std::uint64_t>(40, 81));
  }
  if (request.gpus.count > 0 && *rc::gen::inRange(0, 6) == 0)
    request.gpus.free_memory = base::SizeSpec{base::GiB(*rc::gen::inRange<std::uint64_t>(1, 81)), 0};
  if (request.gpus.count == 1 && *rc::gen::inRange(0, 6) == 0)
    request.gpus.devices = {Lab::Uuid(*rc::gen::inRange<std::size_t>(0, kGpus))};
  request.preemptible = *rc::gen::inRange(0, 4) == 0;
  request.priority = *rc::gen::element(128, 128, 128, 100, 200);
  if (*rc::gen::inRange(0, 4) == 0) request.host_memory = base::GiB(*rc::gen::inRange<std::uint64_t>(1, 100));
  if (*rc::gen::inRange(0, 4) == 0) request.project = "vision";
  if (*rc::gen::inRange(0, 6) == 0) request.group = "sweep", request.max_concurrent = 2;
  if (*rc::gen::inRange(0, 6) == 0) request.array = ArrayTask{{1}, 1, 1};
  if (*rc::gen::inRange(0, 8) == 0) request.begin = kStart + std::chrono::minutes(*rc::gen::inRange(0, 600));
  return request;
}

SimulatedJob AnyJob() {
  SimulatedJob job;
  job.request = AnyRequest();
  job.user = *rc::gen::element<std::string>("ann", "bob", "cat");
  job.submit = kStart + std::chrono::minutes(*rc::gen::inRange(0, 300));
  job.run = std::chrono::minutes(*rc::gen::inRange(1, 400));
  if (job.request.time_limit) job.run = std::min(job.run, *job.request.time_limit);
  job.suspendable = *rc::gen::inRange(0, 4) != 0;
  job.movable = job.suspendable && *rc::gen::inRange(0, 2) == 0;
  const auto most = std::min(job.request.memory_on_each.value_or(base::GiB(30)), base::GiB(30));
  if (job.suspendable && !job.movable && *rc::gen::inRange(0, 2) == 0)
    job.left = {*rc::gen::inRange<std::uint64_t>(0, most.count + 1)};
  return job;
}

constexpr int kGpuQuota = 4;
constexpr int kRunningQuota = 3;
constexpr double kHoursQuota = 12;
const WallTime kReservedFrom = kStart + 120min, kReservedTo = kStart + 240min;

Simulator MakeWorld() {
  Simulator world(kGpus, [](const Snapshot& snapshot, WallTime now) { return Pass(snapshot, now); });
  world.settings().choice =
      *rc::gen::element(GpuPickPolicy::kSequential, GpuPickPolicy::kRandom, GpuPickPolicy::kTopology);
  world.settings().patience = std::chrono::minutes(*rc::gen::inRange(0, 30));
  world.updater().SetHost({base::GiB(128), std::nullopt});
  world.updater().SetQuota(AccountKind::kUser, "ann", {.gpus = kGpuQuota});
  world.updater().SetQuota(AccountKind::kUser, "bob", {.gpu_hours = kHoursQuota});
  world.updater().SetQuota(AccountKind::kProject, "vision", {.running = kRunningQuota});
  world.updater().SetReservations(
      {{1, "demo", {Lab::Uuid(4), Lab::Uuid(5)}, kReservedFrom, kReservedTo, {"cat"}}});
  const int jobs = *rc::gen::inRange(1, 60);
  for (int i = 0; i < jobs; ++i) world.Submit(AnyJob());
  return world;
}

// Checks the machine after the plan: the jobs on each GPU, including those that leave.
void CheckGpus(const Snapshot& snapshot, const Plan& plan) {
  struct Use {
    int exclusive = 0, shared = 0;
    base::Bytes memory;
    base::Bytes left;    // of suspended jobs
    base::Bytes wanted;  // the most that a job that starts asks for
  };
  std::vector<Use> uses(snapshot.gpus.size());
  base::Bytes host;
  const auto add = [&](const Need& need, const GpuSet& gpus) {
    ForEach(gpus, [&](std::size_t gpu) {
      (need.share ? uses[gpu].shared : uses[gpu].exclusive) += 1;
      uses[gpu].memory += need.share ? need.memory : base::Bytes{};
    });
  };
  const auto resumes = [&](JobId id) {
    return std::any_of(plan.resumes.begin(), plan.resumes.end(),
                       [&](const ResumeDecision& each) { return each.job == id; });
  };
  for (const RunningJobInput& job : snapshot.running) {
    const Need& need = snapshot.needs[job.need];
    host += need.host_memory;
    if (job.phase != RunningPhase::kSuspended && job.phase != RunningPhase::kLeaving) add(need, job.gpus);
    if (job.phase == RunningPhase::kSuspended && !resumes(job.id))
      for (const ResidualOnGpu& each : job.left) uses[each.gpu].left += each.bytes;
    // A GPU that a job is still leaving is not handed out.
    if (job.phase == RunningPhase::kLeaving)
      for (const StartDecision& start : plan.starts)
        RC_ASSERT((start.gpus & job.gpus).none() ||
                  (need.share && snapshot.needs[snapshot.waiting[start.waiting].need].share));
  }
  for (const StartDecision& start : plan.starts) {
    const Need& need = snapshot.needs[snapshot.waiting[start.waiting].need];
    RC_ASSERT(start.gpus.count() == static_cast<std::size_t>(need.gpus));
    RC_ASSERT((start.gpus & ~need.possible).none());
    host += need.host_memory;
    add(need, start.gpus);
    ForEach(start.gpus, [&](std::size_t gpu) {
      uses[gpu].wanted = std::max({uses[gpu].wanted, need.memory, need.free_memory});
    });
  }
  const auto running = [&](JobId id) -> const RunningJobInput& {
    return *std::find_if(snapshot.running.begin(), snapshot.running.end(),
                         [&](const RunningJobInput& job) { return job.id == id; });
  };
  for (const ResumeDecision& each : plan.resumes) add(snapshot.needs[running(each.job).need], each.gpus);
  for (const MoveDecision& each : plan.moves) add(snapshot.needs[running(each.job).need], each.to);
  for (std::size_t gpu = 0; gpu < uses.size(); ++gpu) {
    RC_ASSERT(uses[gpu].exclusive <= 1);
    RC_ASSERT(uses[gpu].exclusive == 0 || uses[gpu].shared == 0);
    RC_ASSERT(uses[gpu].memory + uses[gpu].left <= snapshot.gpus[gpu].memory);
    RC_ASSERT(uses[gpu].wanted.count == 0 || uses[gpu].wanted + uses[gpu].left <= snapshot.gpus[gpu].memory);
  }
  RC_ASSERT(host <= base::GiB(128));
}

void CheckQuotas(const Snapshot& snapshot, const Plan& plan) {
  QuotaTracker quota_use(snapshot);
  for (const StartDecision& start : plan.starts) quota_use.Start(snapshot.waiting[start.waiting]);
  for (Index user = 0; user < snapshot.users.size(); ++user) {
    if (snapshot.users[user].name == "ann") RC_ASSERT(quota_use.user(user).gpus <= kGpuQuota);
    if (snapshot.users[user].name == "bob") RC_ASSERT(quota_use.user(user).GpuHours() <= kHoursQuota);
  }
  for (Index project = 0; project < snapshot.projects.size(); ++project)
    RC_ASSERT(quota_use.project(project).running <= kRunningQuota);
  for (Index array = 0; array < snapshot.arrays.size(); ++array) RC_ASSERT(quota_use.array(array) <= 1);
  for (Index group = 0; group < snapshot.groups.size(); ++group) RC_ASSERT(quota_use.group(group) <= 2);
}

void CheckReservation(const Snapshot& snapshot, const Plan& plan, WallTime now) {
  if (now >= kReservedTo) return;
  for (const StartDecision& start : plan.starts) {
    const WaitingJobInput& job = snapshot.waiting[start.waiting];
    const Need& need = snapshot.needs[job.need];
    if (snapshot.users[job.user].name == "cat" || !(start.gpus.test(4) || start.gpus.test(5))) continue;
    if (need.preemptible)
      RC_ASSERT(now < kReservedFrom);
    else
      RC_ASSERT(need.time_limit.count() > 0 && now + need.time_limit <= kReservedFrom);
  }
  for (const RunningJobInput& job : snapshot.running) {  // and the preemptible jobs leave
    if (!snapshot.needs[job.need].preemptible || snapshot.users[job.user].name == "cat" ||
        now < kReservedFrom)
      continue;
    if (job.phase != RunningPhase::kRunning || !(job.gpus.test(4) || job.gpus.test(5))) continue;
    RC_ASSERT(std::any_of(plan.preempts.begin(), plan.preempts.end(),
                          [&](const PreemptDecision& each) { return each.job == job.id; }));
  }
}

TEST(QueueProperties, NoGpuIsOversoldNoQuotaPassedNoReservationBroken) {
  EXPECT_TRUE(rc::check([] {
    Simulator world = MakeWorld();
    world.set_check([](const Snapshot& snapshot, const Plan& plan, WallTime now) {
      CheckGpus(snapshot, plan);
      CheckQuotas(snapshot, plan);
      CheckReservation(snapshot, plan, now);
    });
    world.Run(kStart + 48h);
  }));
}

// Every job that its quota allows ends. Ann's quota limits the number of GPUs; bob's jobs on GPUs need a time
// limit within the quota of GPU-hours.
TEST(QueueProperties, EveryJobThatMayRunEnds) {
  EXPECT_TRUE(rc::check([] {
    Simulator world = MakeWorld();
    std::map<JobId, std::string> why;
    const Dependents dependents;
    world.set_check([&](const Snapshot& snapshot, const Plan& plan, WallTime now) {
      why.clear();
      const Explainer explainer(snapshot, plan, now, dependents);
      for (Index i = 0; i < snapshot.waiting.size(); ++i) why[snapshot.waiting[i].id] = explainer.Of(i);
      for (const RunningJobInput& job : snapshot.running)
        why[job.id] = std::to_string(int(job.phase)) + " on " + job.gpus.to_string();
    });
    world.Run(kStart + 24h * 30);
    for (const SimulatedJob& job : world.jobs()) {
      const bool too_wide = job.user == "ann" && job.request.gpus.count > kGpuQuota;
      const double hours =
          job.request.gpus.count *
          std::chrono::duration<double, std::ratio<3600>>(job.request.time_limit.value_or(0ms)).count();
      const bool uncounted =
          job.user == "bob" && job.request.gpus.count > 0 && (!job.request.time_limit || hours > kHoursQuota);
      if (job.ended.has_value() != !(too_wide || uncounted))
        for (const auto& [id, text] : why) RC_LOG() << id.value << " started: " << text << "\n";
      if (job.ended.has_value() != !(too_wide || uncounted))
        RC_LOG() << job.user << " " << spec::Serialize(job.request) << " started " << job.started.has_value()
                 << " preempted " << job.preemptions << " moved " << job.moves << " run " << job.run.count()
                 << "\n";
      RC_ASSERT(job.ended.has_value() == !(too_wide || uncounted));
    }
  }));
}

std::string TextOf(const Plan& plan) {
  std::string text = Text(plan.starts);
  for (const auto& each : plan.preempts) text += " p" + std::to_string(each.job.value);
  for (const auto& each : plan.moves)
    text += " m" + std::to_string(each.job.value) + ">" + each.to.to_string();
  for (const auto& each : plan.resumes)
    text += " r" + std::to_string(each.job.value) + ">" + each.gpus.to_string();
  return text;
}

TEST(QueueProperties, TheOrderOfTheRowsChangesNothing) {
  EXPECT_TRUE(rc::check([] {
    Simulator world = MakeWorld();
    world.set_check([](const Snapshot& snapshot, const Plan& plan, WallTime now) {
      Snapshot other = snapshot;
      std::mt19937_64 random(7);
      std::shuffle(other.waiting.begin(), other.waiting.end(), random);
      std::shuffle(other.running.begin(), other.running.end(), random);
      const Plan again = Pass(other, now);
      RC_ASSERT(TextOf(again) == TextOf(plan));
      RC_ASSERT(again.wake_at == plan.wake_at);
      std::map<JobId, Verdict> verdicts;
      for (std::size_t i = 0; i < other.waiting.size(); ++i)
        verdicts[other.waiting[i].id] = again.verdicts[i];
      for (std::size_t i = 0; i < snapshot.waiting.size(); ++i) {
        const Verdict& mine = plan.verdicts[i];
        const Verdict& theirs = verdicts[snapshot.waiting[i].id];
        RC_ASSERT(mine.reason == theirs.reason && mine.position == theirs.position &&
                  mine.start == theirs.start);
      }
    });
    world.Run(kStart + 24h);
  }));
}

// A job for all GPUs among an endless stream of small jobs, with and without time limits. It starts when the
// earlier running jobs have ended and the jobs with an earlier rank have run.
TEST(QueueProperties, AWideJobNeverStarves) {
  for (const bool limited : {true, false}) {
    Simulator world(4, [](const Snapshot& snapshot, WallTime now) { return Pass(snapshot, now); });
    std::mt19937_64 random(3);
    for (int i = 0; i < 4000; ++i) {
      SimulatedJob job{
          .request = Lab::Gpus(1), .user = "user" + std::to_string(i % 5), .submit = kStart + 2min * i};
      job.run = std::chrono::minutes(5 + random() % 10);
      if (limited) job.request.time_limit = 15min;
      world.Submit(job);
    }
    SimulatedJob wide{.request = Lab::Gpus(4), .user = "ann", .submit = kStart + 1h, .run = 1h};
    if (limited) wide.request.time_limit = 1h;
    world.Submit(wide);
    world.Run(kStart + 24h * 7);
    ASSERT_TRUE(world.jobs().back().started) << limited;
    const SchedulingSettings usual;
    const Millis bound = usual.fair_share + usual.short_job + usual.patience + 1h;
    EXPECT_LT(*world.jobs().back().started - wide.submit, bound);
  }
}

}  // namespace
}  // namespace gpuman::queue
