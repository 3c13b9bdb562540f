#include "queue/snapshot_updater.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

#include "queue/admission.h"
#include "queue/forecast.h"
#include "queue/placement.h"
#include "queue/test_lab.h"

namespace gpuman::queue {
namespace {

using namespace std::chrono_literals;

TEST(SnapshotUpdater, EqualNeedsAndNamesStandOnce) {
  Lab lab(2);
  for (int i = 0; i < 3; ++i) lab.Waits(Lab::Gpus(1, 1h));
  lab.Waits(Lab::Gpus(1, 2h), "cat");
  const Snapshot& snapshot = lab.View();
  EXPECT_EQ(snapshot.waiting.size(), 4u);
  EXPECT_EQ(snapshot.needs.size(), 2u);
  EXPECT_EQ(snapshot.users.size(), 2u);
  EXPECT_EQ(lab.updater.Queued(AccountKind::kUser, "ann"), 3);
  lab.updater.Erase({4});
  EXPECT_EQ(lab.updater.Queued(AccountKind::kUser, "cat"), 0);
  lab.Waits(Lab::Part(5));  // takes the place of the need that no job has any more
  EXPECT_EQ(lab.View().needs.size(), 2u);
}

TEST(SnapshotUpdater, AnAccountThatComesLaterHasTheUsualLimits) {
  Lab lab(2);
  lab.updater.SetQuota(AccountKind::kProject, "old", {.gpus = 5});
  lab.updater.SetUsual(AccountKind::kProject, {.running = 1}, 0.5);
  lab.updater.SetQuota(AccountKind::kProject, "vision", {.gpus = 3});
  for (const char* project : {"new", "vision", "old"})
    lab.Waits(With(Lab::Gpus(1), [&](Request& request) { request.project = project; }));
  std::map<std::string, QueueAccount> projects;
  for (const QueueAccount& each : lab.View().projects) projects[each.name] = each;
  EXPECT_EQ(projects.at("new").quota, Quota{.running = 1});
  EXPECT_EQ(projects.at("new").shares, 0.5);
  EXPECT_EQ(projects.at("vision").quota, Quota{.gpus = 3});
  EXPECT_EQ(projects.at("old").quota, Quota{.running = 1}) << "it has no limits of its own any more";
}

TEST(SnapshotUpdater, AccountsThatHaveNothingAreForgottenAndOthersStayAsTheyAre) {
  Lab lab(2);
  const auto of = [](const std::string& project) {
    return With(Lab::Gpus(1), [&](Request& request) { request.project = project; });
  };
  lab.updater.SetShares(AccountKind::kProject, "named", 2);
  for (int i = 0; i < 100; ++i) {
    const std::string project = "ci-" + std::to_string(i);
    lab.updater.Erase(lab.Waits(of(project), "user" + std::to_string(i)));
    lab.updater.Charge("ci", project, {1, 1}, kStart - 1000h * 24, kStart - 100h * 24);
  }
  lab.updater.Charge("bob", "late", {1, 1}, kStart - 2h, kStart - 1h);
  lab.updater.SetWindow(AccountKind::kUser, "cat", 10, kStart + 1h);
  const JobId waits = lab.Waits(of("vision"), "ann");
  const JobId runs = lab.Runs(of("speech"), {0}, "dan");
  lab.updater.SetReservations({{.id = 1,
                                .name = "r",
                                .gpus = {Lab::Uuid(1)},
                                .start = kStart + 1h,
                                .end = kStart + 2h,
                                .users = {"eve"}}});

  lab.updater.Forget(kStart);
  const Snapshot& snapshot = lab.View();
  const auto names = [](const std::vector<QueueAccount>& accounts) {
    std::set<std::string> all;
    for (const QueueAccount& each : accounts) all.insert(each.name);
    return all;
  };
  EXPECT_EQ(names(snapshot.users), (std::set<std::string>{"ann", "bob", "cat", "dan", "eve"}));
  EXPECT_EQ(names(snapshot.projects), (std::set<std::string>{"late", "named", "speech", "vision"}));
  EXPECT_EQ(snapshot.members.size(), 3u);
  const auto expect_row = [&](const auto& row, const std::string& user, const std::string& project) {
    EXPECT_EQ(snapshot.users[row.user].name, user);
    EXPECT_EQ(snapshot.projects[row.project].name, project);
    EXPECT_EQ(snapshot.members[row.member].user, row.user);
    EXPECT_EQ(snapshot.members[row.member].project, row.project);
  };
  expect_row(snapshot.waiting[*lab.updater.RowOfWaiting(waits)], "ann", "vision");
  expect_row(snapshot.running[*lab.updater.RowOfRunning(runs)], "dan", "speech");
  EXPECT_EQ(snapshot.users[snapshot.reservations[0].users[0]].name, "eve");
  EXPECT_EQ(lab.updater.Queued(AccountKind::kUser, "ann"), 1);
  EXPECT_EQ(lab.updater.Queued(AccountKind::kProject, "vision"), 1);
  EXPECT_EQ(lab.updater.Queued(AccountKind::kProject, "ci-5"), 0);
  EXPECT_EQ(snapshot.projects[lab.updater.AccountOf(AccountKind::kProject, "named")].shares, 2);
  // An account that comes back starts as a new one; the other accounts keep their use.
  lab.updater.Charge("bob", "late", {1, 1}, kStart - 1h, kStart);
  EXPECT_EQ(lab.View().members.size(), 3u);
  lab.Waits(of("ci-5"), "ann");
  EXPECT_EQ(lab.View().members.size(), 4u);
  lab.updater.Erase(waits);
  EXPECT_EQ(lab.updater.Queued(AccountKind::kProject, "vision"), 0);
}

TEST(SnapshotUpdater, HowLongAJobRanGrowsWithTheClock) {
  SnapshotUpdater updater;
  updater.PutRunning({.id = {1}, .user = "ann", .ran_before = 10s, .on_since = base::MonoTime{} + 5s},
                     Lab::Gpus(0));
  EXPECT_EQ(updater.View(base::MonoTime{} + 25s).running[0].ran, 30s);
  EXPECT_EQ(updater.View(base::MonoTime{} + 25s).running[0].undisturbed, 20s);
  EXPECT_EQ(updater.View(base::MonoTime{}).running[0].undisturbed, 0s);
}

TEST(SnapshotUpdater, GpusThatComeAndGoAreFoundAgainByTheirUuid) {
  Lab lab(3);
  lab.Runs(Lab::Gpus(1), {2});
  lab.Waits(Lab::Exactly({1}));
  std::vector<Gpu> fewer{lab.machine[2], lab.machine[1]};
  lab.updater.SetGpus(fewer);
  const Snapshot& snapshot = lab.View();
  EXPECT_EQ(snapshot.running[0].gpus, Set({0}));
  EXPECT_EQ(snapshot.needs[snapshot.waiting[0].need].possible, Set({1}));
}

// After any changes in any order, the snapshot equals a snapshot that is made new from the same jobs.
TEST(SnapshotUpdater, ChangesAddUpToWhatThereIs) {
  EXPECT_TRUE(rc::check([] {
    Lab lab(4);
    std::map<std::int64_t, std::pair<bool, Request>> jobs;
    const auto steps = *rc::gen::inRange(0, 80);
    for (int i = 0; i < steps; ++i) {
      const JobId id{*rc::gen::inRange<std::int64_t>(1, 12)};
      Request request = Lab::Gpus(*rc::gen::inRange(0, 3), std::chrono::minutes(*rc::gen::inRange(0, 3)));
      if (*rc::gen::arbitrary<bool>())
        request.group = *rc::gen::element<std::string>("a", "b"), request.max_concurrent = 2;
      if (*rc::gen::arbitrary<bool>()) request.array = ArrayTask{{*rc::gen::inRange(1, 3)}, 1, 1};
      switch (*rc::gen::inRange(0, 3)) {
        case 0:
          lab.updater.Erase(id);
          jobs.erase(id.value);
          break;
        case 1:
          lab.updater.PutWaiting({.id = id, .user = "ann", .since = kStart}, request);
          jobs[id.value] = {false, request};
          break;
        default:
          lab.updater.PutRunning({.id = id, .user = "ann"}, request);
          jobs[id.value] = {true, request};
      }
    }
    const Snapshot& snapshot = lab.View();
    RC_ASSERT(snapshot.waiting.size() + snapshot.running.size() == jobs.size());
    const auto check = [&](const auto& row, bool runs) {
      const auto& [running, request] = jobs.at(row.id.value);
      RC_ASSERT(running == runs);
      RC_ASSERT(snapshot.needs[row.need] == lab.updater.NeedOf(request));
      RC_ASSERT((row.group == kNone) == !request.group);
      if (row.group != kNone) RC_ASSERT(snapshot.groups[row.group].name == request.group);
      if (row.array != kNone)
        RC_ASSERT(snapshot.arrays[row.array].name == std::to_string(request.array->array.value));
    };
    for (const WaitingJobInput& row : snapshot.waiting) check(row, false);
    for (const RunningJobInput& row : snapshot.running) check(row, true);
    RC_ASSERT(lab.updater.Queued(AccountKind::kUser, "ann") == static_cast<int>(snapshot.waiting.size()));
  }));
}

TEST(QueueAdmission, ARequestThatCanNeverFitIsRefusedWithTheNumbers) {
  Lab lab(4);
  lab.machine[0].drained = true;  // comes back
  lab.updater.SetGpus(lab.machine);
  lab.updater.SetHost({base::GiB(100), 16});
  lab.updater.SetQuota(AccountKind::kUser, "ann", {.gpus = 2});
  lab.updater.SetQuota(AccountKind::kUser, "cat", {.gpu_hours = 10});
  struct Row {
    Request request;
    const char* user;
    const char* said;  // null: accepted
  };
  Request model = Lab::Gpus(1), host = Lab::Gpus(1), cpus = Lab::Gpus(1), unknown = Lab::Gpus(1);
  model.gpus.model = "H200";
  host.host_memory = base::GiB(101);
  cpus.cpus = 17;
  unknown.gpus.devices = {"GPU-gone"};
  Request named = Lab::Exactly({1}), much = Lab::Part(81), free = Lab::Exactly({1, 2});
  named.gpus.model = "H200";
  much.gpus.model = "a100";
  free.gpus.free_memory = base::SizeSpec{base::GiB(81), 0};
  const std::vector<Row> rows{
      {Lab::Gpus(4), "bob", nullptr},
      {Lab::Gpus(5), "bob", "gpus.count: it asks for 5 GPUs; of the 4 GPUs of this machine 4 could be used"},
      {model, "bob", "gpus.model: no GPU of this machine has 'H200' in its name; it has NVIDIA A100"},
      {named, "bob", "gpus.model: no GPU that it names has 'H200' in its name; they are NVIDIA A100"},
      {Lab::Part(81, {}, 9), "bob",
       "memory: it asks for 81GiB on each GPU; the largest of this machine has 80GiB for jobs"},
      {much, "bob", "the largest of this machine with 'a100' in its name has 80GiB for jobs"},
      {free, "bob", "gpus.free_memory: it asks for 81GiB on each GPU; the largest that it names has 80GiB"},
      {unknown, "bob",
       "gpus.devices: it asks for 1 GPU that it names; of the 4 GPUs of this machine 0 could be used"},
      {Lab::Part(40, {}, 5), "bob", "gpus.count: it asks for 40GiB on each of 5 GPUs, shared; of the 4 GPUs"},
      {host, "bob", "host_memory: it asks for 101GiB of the machine's memory, which has 100GiB"},
      {cpus, "bob", "cpus: it asks for 17 processors; this machine has 16"},
      {Lab::Gpus(2), "ann", nullptr},
      {Lab::Gpus(3), "ann", "it asks for 3 GPUs, and the quota of user ann is 2"},
      {Lab::Gpus(2, 5h), "cat", nullptr},
      {Lab::Gpus(2, 6h), "cat", "it may use 12 GPU-hours, and the quota of user cat is 10 within 1d00h"},
      {Lab::Gpus(1), "cat", "a job needs a time limit"},
      {Lab::Gpus(0), "cat", nullptr},
  };
  for (const Row& row : rows) {
    const Index user = lab.updater.AccountOf(AccountKind::kUser, row.user);
    const auto said = CanEverRun(lab.View(), lab.updater.NeedOf(row.request), row.request.gpus, user, kNone);
    ASSERT_EQ(said.has_value(), row.said == nullptr) << row.said;
    if (said) continue;
    EXPECT_EQ(said.error().code, base::ErrorCode::kUnsatisfiable);
    EXPECT_NE(said.error().message.find(row.said), std::string::npos) << said.error().message;
  }
}

// GPU 0 is split into two instances of 16 GiB, which come after it; GPU 1 is whole.
Lab WithInstances() {
  Lab lab(2, "NVIDIA H200");
  lab.machine[0].split = lab.machine[0].drained = true;
  for (unsigned number : {0u, 1u}) {
    Gpu gpu{.index = 0, .instance = number, .profile = "1g.18gb", .uuid = "MIG-" + std::to_string(number)};
    gpu.model = "NVIDIA H200 MIG 1g.18gb";
    gpu.memory = base::GiB(16);
    lab.machine.insert(lab.machine.begin() + 1 + number, gpu);
  }
  lab.updater.SetGpus(lab.machine);
  return lab;
}

TEST(QueueInstances, AreGpusForWhoAsksForOne) {
  Lab lab = WithInstances();
  const struct {
    const char* model;
    std::uint64_t free_gib;
    GpuSet possible;
  } table[] = {{"", 0, Set({0, 1, 2, 3})},   {"h200", 0, Set({0, 3})},       {"1G.18", 0, Set({1, 2})},
               {"H200 MIG", 0, Set({1, 2})}, {"", 17, Set({0, 3})},          {"a100", 0, Set({})},
               {"1g.18gb", 17, Set({})},     {"mig 1g.18gb", 0, Set({1, 2})}};
  for (const auto& row : table) {
    Request request = Lab::Gpus(1);
    request.gpus.model = row.model;
    if (row.free_gib > 0) request.gpus.free_memory = base::SizeSpec{base::GiB(row.free_gib), 0};
    EXPECT_EQ(lab.updater.NeedOf(request).possible, row.possible) << row.model << " " << row.free_gib;
  }
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(1));
  lab.Waits(Lab::Gpus(1));
  const auto plan = lab.Decide();
  GpuSet given;
  for (const auto& start : plan.starts) given |= start.gpus;
  EXPECT_EQ(given, Set({1, 2, 3})) << "the GPU that is split is given to nobody";
}

TEST(QueueInstances, AreNotForSeveralAtOnce) {
  Lab lab = WithInstances();
  EXPECT_EQ(lab.updater.NeedOf(Lab::Gpus(2)).possible, Set({0, 3}));
  EXPECT_EQ(lab.updater.NeedOf(Lab::Part(1)).possible, Set({0, 1, 2, 3}));
  lab.machine[1].shares_memory = true;
  lab.updater.SetGpus(lab.machine);
  EXPECT_EQ(lab.updater.NeedOf(Lab::Part(1)).possible, Set({0, 2, 3}));
  const Index user = lab.updater.AccountOf(AccountKind::kUser, "ann");
  const Request three = Lab::Gpus(3);
  const auto said = CanEverRun(lab.View(), lab.updater.NeedOf(three), three.gpus, user, kNone);
  ASSERT_FALSE(said);
  EXPECT_NE(said.error().hint.find("CUDA gives a process one of them"), std::string::npos);
}

TEST(QueueInstances, ThatAreGoneAreWaitedFor) {
  Lab lab = WithInstances();
  Request request = Lab::Gpus(1);
  request.gpus.devices = {"MIG-1"};
  const JobId job = lab.Waits(request);
  lab.updater.SetGpus({lab.machine[0], lab.machine[3]});
  lab.Decide();
  EXPECT_EQ(lab.Of(job).reason, WaitReason::kResources);
  EXPECT_EQ(lab.Why(job), "wants 1 GPU that it names; 1 of them is not here now");
  lab.updater.SetGpus(lab.machine);
  EXPECT_EQ(lab.Decide().starts.size(), 1u);
}

TEST(QueueInstances, AreNamedByTheNumberOfTheirGpuAndTheirOwn) {
  Lab lab = WithInstances();
  EXPECT_EQ(NumberOf(lab.machine[0]), "0");
  EXPECT_EQ(NumberOf(lab.machine[2]), "0:1");
}

TEST(QueueAdmission, TheQuotaOfWaitingJobsCountsABatchWhole) {
  const QueueAccount account{.name = "ann", .quota = {.queued = 10}};
  EXPECT_TRUE(MayQueue(account, "user", 4, 6));
  const auto refused = MayQueue(account, "user", 4, 7);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "user ann has 4 waiting jobs; with 7 more that passes the quota of 10");
  EXPECT_TRUE(MayQueue(QueueAccount{}, "user", 1'000'000, 1));
}

TEST(QueueAdmission, AReservationTakesGpusThatAreFreeThen) {
  Lab lab(4);
  lab.Runs(Lab::Gpus(1), {3});
  lab.Runs(Lab::Gpus(1, 2h), {2});  // an hour left
  lab.updater.SetReservations({{1, "other", {Lab::Uuid(1)}, kStart + 2h, kStart + 4h, {"bob"}}});
  EXPECT_EQ(PickReserved(lab.View(), 2, kStart + 3h, kStart + 5h, kStart).value(), Set({2, 0}));
  EXPECT_EQ(PickReserved(lab.View(), 3, kStart + 3h, kStart + 5h, kStart).value(), Set({2, 0, 3}));
  EXPECT_EQ(PickReserved(lab.View(), 4, kStart + 4h, kStart + 5h, kStart).value(), Set({0, 1, 2, 3}));
  EXPECT_FALSE(PickReserved(lab.View(), 4, kStart + 3h, kStart + 5h, kStart));
}

TEST(QueuePlacement, TopologyTakesTheBestLinkedAndLeavesThemTogether) {
  Lab lab(4);
  lab.settings.choice = GpuPickPolicy::kTopology;
  std::vector<Link> links(16, Link::kSystem);  // 0-3 and 1-2 are pairs
  for (const auto& [a, b] : {std::pair(0u, 3u), std::pair(1u, 2u)})
    links[a * 4 + b] = links[b * 4 + a] = Link::kNvLink;
  lab.updater.SetGpus(lab.machine, links);
  lab.Runs(Lab::Gpus(1), {0});
  const JobId one = lab.Waits(Lab::Gpus(1));
  EXPECT_EQ(Text(lab.Decide().starts), "2:3");  // not from a pair
  lab.updater.Erase(one);
  lab.Waits(Lab::Gpus(2));
  EXPECT_EQ(Text(lab.Decide().starts), "3:1,2");
}

TEST(QueuePlacement, RandomIsTheSameForTheSameJobAndSeed) {
  std::vector<CandidateGpu> candidates;
  for (std::size_t gpu = 0; gpu < 8; ++gpu) candidates.push_back({.gpu = gpu});
  Lab lab(8);
  lab.settings.choice = GpuPickPolicy::kRandom;
  std::map<std::size_t, int> counts;
  for (std::int64_t job = 1; job <= 800; ++job) {
    const GpuSet set = Choose(lab.View(), candidates, 1, false, {job});
    EXPECT_EQ(Choose(lab.View(), candidates, 1, false, {job}), set);
    ForEach(set, [&](std::size_t gpu) { ++counts[gpu]; });
  }
  for (std::size_t gpu = 0; gpu < 8; ++gpu) EXPECT_NEAR(counts[gpu], 100, 40);
}

TEST(QueueForecast, JobsAreOneAfterTheOtherOnTheGpusThatAreFreeFirst) {
  Lab lab(2);
  lab.settings.short_job = 0ms;
  lab.Runs(Lab::Gpus(1, 3h), {0});  // 2 h left
  lab.Runs(Lab::Gpus(1, 2h), {1});  // 1 h left
  const JobId wide = lab.Waits(Lab::Gpus(2, 1h));
  const JobId next = lab.Waits(Lab::Gpus(1, 4h));
  const JobId last = lab.Waits(Lab::Gpus(1));
  const JobId after = lab.Waits(Lab::Gpus(1));
  Request late = Lab::Gpus(1), held = Lab::Gpus(1);
  late.begin = kStart + 9h;
  held.hold = true;
  const JobId begins = lab.Waits(late), never = lab.Waits(held);
  const Plan plan = lab.Decide();
  const auto starts = Forecast(lab.View(), plan, lab.now, SIZE_MAX).starts;
  const auto of = [&](JobId job) { return starts[*lab.updater.RowOfWaiting(job)]; };
  EXPECT_EQ(of(wide), kStart + 2h);
  EXPECT_EQ(of(next), kStart + 3h);
  EXPECT_EQ(of(last), kStart + 3h);
  EXPECT_EQ(of(after), kStart + 7h);
  EXPECT_EQ(of(begins), kStart + 9h);
  EXPECT_EQ(of(never), kNever);
  EXPECT_EQ(Forecast(lab.View(), plan, lab.now, 1).starts[*lab.updater.RowOfWaiting(next)], kNever);
}

TEST(QueueForecast, NobodyIsExpectedToStartOnWhatIsReservedForOthers) {
  Lab lab(2);
  lab.settings.short_job = 0ms;
  lab.updater.SetReservations({{1, "now", {Lab::Uuid(0)}, kStart - 1h, kStart + 2h, {"cat"}},
                               {2, "later", {Lab::Uuid(1)}, kStart + 1h, kStart + 5h, {"cat"}}});
  Request leaves = Lab::Gpus(1, 3h);
  leaves.preemptible = true;
  const JobId wide = lab.Waits(Lab::Gpus(2, 1h)), hers = lab.Waits(Lab::Gpus(2, 1h), "cat");
  const Plan plan = lab.Decide();
  const auto starts = Forecast(lab.View(), plan, lab.now, SIZE_MAX).starts;
  EXPECT_EQ(starts[*lab.updater.RowOfWaiting(hers)], kStart);
  EXPECT_EQ(starts[*lab.updater.RowOfWaiting(wide)], kStart + 5h)
      << "in between they are never free together";
  lab.updater.SetPaused(true);
  const Plan paused = lab.Decide();
  EXPECT_EQ(Forecast(lab.View(), paused, lab.now, SIZE_MAX).starts[*lab.updater.RowOfWaiting(wide)], kNever);
}

TEST(QueueExplain, AJobSaysForWhichOnesItWaits) {
  const auto text = [](const Dependencies& depends) { return Explain(WaitReason::kDependency, depends); };
  Dependencies two{.mode = DependencyMode::kAll,
                   .list = {{DependencyKind::kAfterOk, {7}}, {DependencyKind::kAfter, {8}}}};
  EXPECT_EQ(text(two), "waits for job 7 to finish and job 8 to start");
  two.mode = DependencyMode::kAny;
  EXPECT_EQ(text(two), "waits for job 7 to finish or job 8 to start");
  EXPECT_EQ(Explain(WaitReason::kDependencyNever, {.list = {{DependencyKind::kAfterNotOk, {7}}}}),
            "waits for job 7 to fail, which can no longer happen");
  Dependencies many;
  for (int id = 1; id <= 100; ++id) many.list.push_back({DependencyKind::kAfterAny, {id}});
  EXPECT_EQ(text(many), "waits for job 1 to end and job 2 to end and job 3 to end and 97 more");
}

TEST(QueueForecast, AStartThatRestsOnAJobWithoutATimeLimitIsMarked) {
  Lab lab(2);
  lab.settings.short_job = 0ms;
  lab.Runs(Lab::Gpus(1, 3h), {0});
  lab.Runs(Lab::Gpus(1), {1});  // presumed to run for a day
  const JobId first = lab.Waits(Lab::Gpus(1, 1h)), second = lab.Waits(Lab::Gpus(1));
  const JobId behind = lab.Waits(Lab::Gpus(1, 1h));
  lab.updater.SetQuota(AccountKind::kUser, "dan", {.running = 1});
  const JobId his = lab.Waits(Lab::Gpus(0), "dan"), his_next = lab.Waits(Lab::Gpus(0, 1h), "dan");
  Request late = Lab::Gpus(1, 1h);
  late.begin = kStart + 900h;
  const JobId begins = lab.Waits(late);
  const Plan plan = lab.Decide();
  const StartEstimates estimates = Forecast(lab.View(), plan, lab.now, SIZE_MAX);
  const auto of = [&](JobId job) { return estimates.presumed[*lab.updater.RowOfWaiting(job)]; };
  EXPECT_FALSE(of(first)) << "behind one with a time limit";
  EXPECT_FALSE(of(second));
  EXPECT_TRUE(of(behind)) << "behind one that waits and has none";
  EXPECT_FALSE(of(his));
  EXPECT_TRUE(of(his_next)) << "a quota lets it in when one without a limit has ended";
  EXPECT_FALSE(of(begins));
}

TEST(QueueForecast, ThrottlesAndQuotasCount) {
  Lab lab(8);
  lab.settings.short_job = 0ms;
  lab.updater.SetQuota(AccountKind::kUser, "ann", {.gpus = 1});
  const JobId first = lab.Waits(Lab::Gpus(1, 1h));
  const JobId second = lab.Waits(Lab::Gpus(1, 1h));
  const JobId third = lab.Waits(Lab::Gpus(1, 1h));
  const Plan plan = lab.Decide();
  const auto starts = Forecast(lab.View(), plan, lab.now, SIZE_MAX).starts;
  EXPECT_EQ(starts[*lab.updater.RowOfWaiting(first)], kStart);
  EXPECT_EQ(starts[*lab.updater.RowOfWaiting(second)], kStart + 1h);
  EXPECT_EQ(starts[*lab.updater.RowOfWaiting(third)], kStart + 2h);
}

}  // namespace
}  // namespace gpuman::queue
