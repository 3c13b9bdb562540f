// Tests the queue's jobs when the wall clock is set, the deletion of old accounts, and the work on threads.
#include "daemon/queue/dispatcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/test_temp_dir.h"
#include "queue/admission.h"

namespace gpuman::daemon {
namespace {

using namespace std::chrono_literals;

class HandClock final : public base::Clock {
 public:
  base::MonoTime Mono() const override {
    const base::MonoTime now = mono;
    mono += each_look;
    return now;
  }
  base::WallTime Wall() const override { return wall; }
  void Pass(base::Millis time) {
    mono += time;
    wall += time;
  }
  mutable base::MonoTime mono{100h};
  base::Millis each_look{0};  // how much time passes with each look
  base::WallTime wall{std::chrono::hours(24 * 365 * 56)};
};

class NoActuator final : public guard::Actuator {
 public:
  void Announce(base::JobId, const std::string&, const std::string&) override {}
  base::Result<> SignalJob(base::JobId, int, std::function<void(const guard::SignalJobResult&)>) override {
    return {};
  }
  base::Result<> SignalProcess(base::ProcessId, int) override { return {}; }
  void SuspendJob(base::JobId, const std::string&, const std::string&, base::Millis) override {}
  void Note(base::JobId, const std::string&) override {}
  void Emit(guard::Event) override {}
};

// Jobs that wait on a machine without GPUs.
class DispatcherTest : public ::testing::Test {
 protected:
  using Done = DispatcherCallbacks::Done;

  DispatcherTest()
      : workers_(1),
        store_(jobs::Store::Open(dir_.path() / "gpuman.db").value(),
               [this](std::function<void()> task) { boost::asio::post(loop_, std::move(task)); }),
        jobs_(loop_, workers_, store_, clock_, table_, InDirectory()),
        dispatcher_(loop_, clock_, jobs_, guard_, Callbacks()) {
    jobs_.callbacks().on_job_changed = [this](const jobs::Job& job, const jobs::VolatileState&) {
      dispatcher_.OnJobChanged(job);
    };
    jobs_.callbacks().on_job_forgotten = [this](base::JobId job) { dispatcher_.OnJobForgotten(job); };
  }
  ~DispatcherTest() override { workers_.join(); }

  jobs::JobManagerOptions InDirectory() {
    jobs::JobManagerOptions options;
    options.jobs_dir = dir_.path();
    return options;
  }
  // A job that failed, and waits for its retry.
  static jobs::Job Retried(base::WallTime not_before, base::Millis delay) {
    jobs::Job job;
    job.id = {1};
    job.queued = true;
    job.state = spec::JobState::kQueued;
    job.owner = jobs::JobOwner{::getuid(), ::getgid(), {}, "ann"};
    job.spec.Change([&](spec::JobSpec& spec) { spec.retries.delay = delay; });
    job.not_before = not_before;
    return job;
  }
  void Adopt(jobs::Job job) {
    jobs::StoreContents contents;
    contents.jobs.push_back(std::move(job));
    jobs_.Adopt(std::move(contents));
  }
  // The rest of the delay; nullopt: the job waits for no delay.
  std::optional<base::Millis> Left() {
    dispatcher_.Wake();
    const auto view = dispatcher_.CurrentView();
    if (view.plan.verdicts.at(0).reason != queue::WaitReason::kRetryDelay) return std::nullopt;
    return view.snapshot.waiting.at(0).begin - view.now;
  }
  static jobs::Job Waiting(std::int64_t id) {
    jobs::Job job;
    job.id = {id};
    job.queued = true;
    job.state = spec::JobState::kQueued;
    job.owner = jobs::JobOwner{kAnn, 100, {}, "ann"};
    return job;
  }
  // Tries out a job of Ann's and counts the answer.
  void TryOut() {
    dispatcher_.TryOut({Waiting(0)}, [this](const base::Result<Dispatcher::SubmissionForecast>& forecast) {
      ASSERT_TRUE(forecast) << forecast.error().message;
      ++forecasts_;
    });
  }
  static jobs::RunAccount Run(const std::string& project, base::WallTime ended) {
    jobs::RunAccount run;
    run.user = "ann";
    run.project = project;
    run.gpus = {"GPU-a"};
    run.started = ended - 1min;
    run.ended = ended;
    run.ran = 1min;
    return run;
  }

  DispatcherCallbacks Callbacks() {
    using base::JobId;
    return {.is_out_of_use = [](const gpu::Gpu&) { return false; },
            .name_of_user = [](uid_t) { return "ann"; },
            .is_preempted = [](JobId) { return false; },
            .is_idle = [](JobId) { return false; },
            .left_of = [this](JobId) { return left_; },
            .preempt = [this](JobId, bool, const std::string&,
                              Done done) { preempted_.push_back(std::move(done)); },
            .resume = [](JobId, const std::optional<std::string>&, const Done&) {},
            .move_to =
                [](JobId, const std::string&, const Done& done) {
                  done(base::Fail(base::ErrorCode::kUnsatisfiable, "it shares memory"));
                },
            .choose_memory = [this](const jobs::Job& job) { return ChooseMemory(job); },
            .on_memory_chosen =
                [this](const jobs::Job& job, const std::string& note) {
                  told_.push_back(std::to_string(job.id.value) + ", " + std::string(ToString(job.state)) +
                                  ": " + note);
                },
            .aside = [this](uid_t user, base::FairTaskExecutor::Task task) -> base::Result<> {
              if (aside_.size() == aside_room_) return base::Fail(base::ErrorCode::kUnavailable, "full");
              aside_.emplace_back(user, std::move(task));
              return {};
            }};
  }
  std::optional<MemoryChoice> ChooseMemory(const jobs::Job& job) {
    asked_about_.push_back(job.id.value);
    if (job.spec->memory_on_each == size_) return std::nullopt;
    MemoryChoice choice{*job.spec, "a note"};
    choice.spec.memory_on_each = size_;
    return choice;
  }
  void WorkAside() {
    auto [user, task] = std::move(aside_.front());
    aside_.erase(aside_.begin());
    if (task.begin) task.begin();
    task.work();
    if (task.then) task.then();
  }

  static constexpr uid_t kAnn = 1001;

  base::TempDir dir_;
  HandClock clock_;
  base::ProcFs table_;
  NoActuator actuator_;
  guard::Guard guard_{{}, table_, actuator_, clock_, [](const std::string&, base::Millis) {}};
  boost::asio::io_context loop_;
  boost::asio::thread_pool workers_;
  jobs::StoreWorker store_;
  jobs::JobManager jobs_;
  Dispatcher dispatcher_;
  std::vector<std::pair<uid_t, base::FairTaskExecutor::Task>> aside_;
  std::size_t aside_room_ = SIZE_MAX;
  suspend::BytesByGpu left_;
  int forecasts_ = 0;
  std::optional<base::Bytes> size_{};  // that is chosen for jobs with memory_auto
  std::vector<std::int64_t> asked_about_;
  std::vector<std::string> told_;
  std::vector<Done> preempted_;  // the callbacks that wait for each order to leave
};

TEST_F(DispatcherTest, DryRunIsWorkOfItsUserAndSnapshotOfLongQueueOfEveryUser) {
  jobs::StoreContents contents;
  for (std::int64_t id = 1; id <= 3000; ++id) contents.jobs.push_back(Waiting(id));
  contents.last_job_id = 3000;
  jobs_.Adopt(std::move(contents));
  for (int i = 0; i < 3; ++i) TryOut();
  bool looked = false;
  dispatcher_.WithSnapshot([&](const std::shared_ptr<const QueueSnapshot>&) { looked = true; });
  loop_.poll();
  std::multiset<uid_t> users;
  for (const auto& [user, task] : aside_) users.insert(user);
  EXPECT_EQ(users, (std::multiset<uid_t>{kAnn, kAnn, kAnn, base::kEveryUser}));
  while (!aside_.empty()) WorkAside();
  EXPECT_TRUE(looked);
  EXPECT_EQ(forecasts_, 3);
}

// A hundred trials that wait for their turn have no copy of the queue each.
TEST_F(DispatcherTest, DryRunUsesQueueAtTheTimeOfItsTurn) {
  std::vector<std::string> said;
  dispatcher_.TryOut({Waiting(0)}, [&](const base::Result<Dispatcher::SubmissionForecast>& forecast) {
    ASSERT_TRUE(forecast);
    said.emplace_back(ToString(forecast->verdicts.at(0).reason));
  });
  ASSERT_EQ(aside_.size(), 1u);
  QueueControlState paused;
  paused.paused = true;
  dispatcher_.SetState(paused);
  WorkAside();
  EXPECT_EQ(said, std::vector<std::string>{"paused"});
}

TEST_F(DispatcherTest, ATrialIsRefusedWhereNoMoreMayWaitAndSaysWhenNobodyWaitsForIt) {
  bool gone = false;
  dispatcher_.TryOut(
      {Waiting(0)}, [](const auto&) {}, {}, [&] { return gone; });
  ASSERT_EQ(aside_.size(), 1u);
  EXPECT_FALSE(aside_.front().second.is_cancelled());
  gone = true;
  EXPECT_TRUE(aside_.front().second.is_cancelled());
  aside_room_ = 1;
  std::optional<base::Error> refusal;
  dispatcher_.TryOut({Waiting(0)}, [&](const base::Result<Dispatcher::SubmissionForecast>& forecast) {
    ASSERT_FALSE(forecast);
    refusal = forecast.error();
  });
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, base::ErrorCode::kUnavailable);
}

TEST_F(DispatcherTest, ARetryWaitsAsLongAsItIsToWhateverTheClockIsSetTo) {
  Adopt(Retried(clock_.Wall() + 10min, 10min));
  EXPECT_EQ(Left(), 10min);
  clock_.Pass(3min);
  EXPECT_EQ(Left(), 7min);
  clock_.wall -= 5h;
  EXPECT_EQ(Left(), 7min);
  clock_.Pass(3min);
  clock_.wall += 24h;
  EXPECT_EQ(Left(), 4min);
  clock_.Pass(4min);
  EXPECT_EQ(Left(), std::nullopt);
  clock_.wall -= 24h;
  EXPECT_EQ(Left(), std::nullopt) << "it is over";
}

TEST_F(DispatcherTest, ARetryOfADaemonBeforeWaitsNoLongerThanItsDelayFromNow) {
  Adopt(Retried(clock_.Wall() + 5h, 10min));
  EXPECT_EQ(Left(), 10min);
}

TEST_F(DispatcherTest, AProjectForEachRunIsForgottenWhenItCountsNoMore) {
  dispatcher_.SetSettings({}, 24h);
  const auto& snapshot = dispatcher_.updater().snapshot();
  for (int i = 0; i < 50; ++i) dispatcher_.Charge(Run("ci-" + std::to_string(i), clock_.Wall()));
  dispatcher_.ForgetOldAccounts();
  EXPECT_EQ(snapshot.projects.size(), 50u);
  clock_.Pass(snapshot.settings.half_life);
  dispatcher_.Charge(Run("late", clock_.Wall()));
  dispatcher_.ForgetOldAccounts();
  EXPECT_EQ(snapshot.projects.size(), 51u) << "fair share still needs them";
  clock_.Pass((queue::kHalfLivesKept - 1) * snapshot.settings.half_life);
  dispatcher_.ForgetOldAccounts();
  ASSERT_EQ(snapshot.projects.size(), 1u);
  EXPECT_EQ(snapshot.projects[0].name, "late");
  EXPECT_EQ(snapshot.members.size(), 1u);
}

// A job that runs on the first of two GPUs.
class RunningJobTest : public DispatcherTest {
 protected:
  RunningJobTest() {
    gpu::Inventory inventory;
    for (const char* const uuid : {"GPU-a", "GPU-b"}) {
      gpu::Gpu gpu;
      gpu.uuid = uuid;
      gpu.name = "NVIDIA H200";
      gpu.memory = base::GiB(140);
      inventory.gpus.push_back(gpu);
    }
    guard_.SetInventory(inventory);
    dispatcher_.OnInventory();
    jobs::Job job = Waiting(1);
    job.state = spec::JobState::kRunning;
    job.gpus = {"GPU-a"};
    job.spec.Change([](spec::JobSpec& spec) {
      spec.gpus.count = 1;
      spec.preemptible = true;
    });
    // The first pass is the first on the loop: the job has no keeper, and ends when the loop gets to know it.
    dispatcher_.Begin();
    Adopt(std::move(job));
  }
  void Sampled(suspend::BytesByGpu left) {
    left_ = std::move(left);
    dispatcher_.AfterSamples();
  }
  const queue::RunningJobInput& Row() { return dispatcher_.updater().snapshot().running.at(0); }
  base::Bytes Left() { return LeftOn(Row(), 0); }
};

TEST_F(RunningJobTest, JobIsMovableUnlessMemoryWouldStay) {
  EXPECT_TRUE(Row().movable);
  Sampled({{"GPU-a", base::GiB(1)}});
  EXPECT_EQ(Left(), base::GiB(1));
  EXPECT_FALSE(Row().movable);
  EXPECT_TRUE(Row().suspendable);
  Sampled({});
  EXPECT_EQ(Left(), base::Bytes{});
  EXPECT_TRUE(Row().movable);
}

TEST_F(RunningJobTest, SmallChangesOfWhatWouldStayAreNotToldButAllOfWhatStays) {
  Sampled({{"GPU-a", base::GiB(1)}});
  Sampled({{"GPU-a", base::GiB(1) + base::MiB(15)}});
  EXPECT_EQ(Left(), base::GiB(1));
  Sampled({{"GPU-a", base::GiB(1) + base::MiB(16)}});
  EXPECT_EQ(Left(), base::GiB(1) + base::MiB(16));
  dispatcher_.OnPhase({1}, suspend::SuspensionPhase::kSuspended);
  Sampled({{"GPU-a", base::GiB(1) + base::MiB(17)}});
  EXPECT_EQ(Left(), base::GiB(1) + base::MiB(17));
}

TEST_F(RunningJobTest, MemoryThatStayedOnceIsExpectedToStayAgain) {
  left_ = {{"GPU-a", base::GiB(3)}};
  dispatcher_.OnPhase({1}, suspend::SuspensionPhase::kSuspended);
  EXPECT_EQ(Left(), base::GiB(3)) << "no sample is needed";
  EXPECT_FALSE(Row().movable);
  dispatcher_.OnPhase({1}, suspend::SuspensionPhase::kResuming);
  dispatcher_.OnPhase({1}, suspend::SuspensionPhase::kRunning);
  Sampled({{"GPU-a", base::GiB(1)}});
  EXPECT_EQ(Left(), base::GiB(3));
  Sampled({});
  EXPECT_EQ(Left(), base::GiB(3));
  EXPECT_TRUE(Row().movable) << "none of its processes shares memory any more";
}

// What became of the order is answered when it is on the disk; the phase is known before.
TEST_F(RunningJobTest, JobThatCouldNotLeaveIsNotPreemptedAgainBeforeTheAnswer) {
  queue::SchedulingSettings settings;
  settings.preempt_after = {};
  dispatcher_.SetSettings(settings, 24h);
  jobs::Job urgent = Waiting(2);
  urgent.spec.Change([](spec::JobSpec& spec) {
    spec.gpus.count = 2;
    spec.priority = 250;
  });
  Adopt(std::move(urgent));
  loop_.run_one();
  ASSERT_EQ(preempted_.size(), 1u);
  using suspend::SuspensionPhase;
  for (const auto phase :
       {SuspensionPhase::kSuspending, SuspensionPhase::kUndoing, SuspensionPhase::kRunning})
    dispatcher_.OnPhase({1}, phase);
  EXPECT_EQ(Row().phase, queue::RunningPhase::kLeaving);
  preempted_[0](base::Fail(base::ErrorCode::kUnsatisfiable, "it did not come to rest"));
  EXPECT_EQ(Row().phase, queue::RunningPhase::kRunning);
  EXPECT_FALSE(Row().suspendable) << "the next one that needs room ends it";
}

TEST_F(RunningJobTest, JobThatCannotBeMovedCanStillBeSuspended) {
  Sampled({{"GPU-a", base::GiB(1)}});
  std::string why;
  dispatcher_.MoveTo({1}, "GPU-b", [&](const base::Result<>& there) { why = there.error().message; });
  EXPECT_EQ(why, "it shares memory");
  EXPECT_TRUE(Row().suspendable);
}

TEST_F(RunningJobTest, JobEndedForAnotherIsExpectedToFreeAllMemory) {
  queue::SchedulingSettings settings;
  settings.preempt_after = 0ms;
  dispatcher_.SetSettings(settings, 24h);
  Sampled({{"GPU-a", base::GiB(30)}, {"GPU-b", base::GiB(30)}});
  jobs::Job urgent = Waiting(2);
  urgent.spec.Change([](spec::JobSpec& spec) {
    spec.gpus.count = 1;
    spec.gpus.devices = {"GPU-a"};
    spec.memory_on_each = base::GiB(140);
    spec.priority = 250;
  });
  Adopt(std::move(urgent));
  loop_.poll_one();
  EXPECT_EQ(Row().phase, queue::RunningPhase::kLeaving);
  Sampled({{"GPU-a", base::GiB(30)}});
  EXPECT_FALSE(Row().suspendable);
  EXPECT_EQ(dispatcher_.CurrentView().plan.verdicts.at(0).reason, queue::WaitReason::kMakingRoom);
}

// Jobs of ann's that ask for no GPU, each different from the others.
std::vector<jobs::Job> Some(int count) {
  std::vector<jobs::Job> prepared;
  for (int i = 0; i < count; ++i) {
    jobs::Job one;
    one.spec.Change([&](spec::JobSpec& spec) { spec.priority = i % 200; });
    one.queued = true;
    one.state = spec::JobState::kHeld;
    one.tag = "t" + std::to_string(i);
    one.owner = jobs::JobOwner{::getuid(), ::getgid(), {}, "ann"};
    prepared.push_back(std::move(one));
  }
  return prepared;
}

// Requests of other users are handled between two slices.
TEST_F(DispatcherTest, ALargeSubmissionIsCheckedAndComesIntoTheQueueInSlices) {
  constexpr int kJobs = 1000;
  clock_.each_look = 1ms;  // so a slice is over with its second look at the clock
  bool done = false;
  dispatcher_.Submit(Some(kJobs), [&](const auto& ids) {
    EXPECT_TRUE(ids);
    done = true;
  });
  std::size_t slices_before = 0, slices = 0, most = 0, before = 0;
  while (!done) {
    loop_.restart();
    const bool acted = loop_.run_one_for(10ms) > 0;
    const std::size_t now = jobs_.index().WaitingCount();
    if (acted) ++(now == 0 ? slices_before : slices);
    most = std::max(most, now - before);
    before = now;
  }
  EXPECT_EQ(before, static_cast<std::size_t>(kJobs));
  EXPECT_LE(most, 64u) << "jobs that came in one slice";
  EXPECT_GE(slices, static_cast<std::size_t>(kJobs / 64));
  EXPECT_GE(slices_before, static_cast<std::size_t>(kJobs / 64))
      << "to check them, and to give them their ids";
}

TEST_F(DispatcherTest, JobsOnTheirWayCountAmongThoseThatWait) {
  dispatcher_.updater().SetUsual(queue::AccountKind::kUser, {.queued = 500}, 1);
  std::vector<std::size_t> answers;  // jobs; 0: refused
  for (const int count : {300, 300, 50})
    dispatcher_.Submit(Some(count), [&](const auto& ids) { answers.push_back(ids ? ids->size() : 0); });
  while (answers.size() < 3) {
    loop_.restart();
    loop_.run_for(1ms);
  }
  std::sort(answers.begin(), answers.end());
  EXPECT_EQ(answers, (std::vector<std::size_t>{0, 50, 300}));
  EXPECT_EQ(dispatcher_.updater().Queued(queue::AccountKind::kUser, "ann"), 350);
  // Jobs that were refused, or have arrived in the queue, are not claimed any more.
  bool taken = false;
  dispatcher_.Submit(Some(150), [&](const auto& ids) { taken = ids.has_value(); });
  while (!taken) {
    loop_.restart();
    loop_.run_for(1ms);
  }
}

TEST_F(DispatcherTest, AProjectThatIsChangedCountsWhatComesIntoIt) {
  jobs::StoreContents contents;
  for (const std::int64_t id : {1, 2, 3}) contents.jobs.push_back(Waiting(id));
  contents.jobs[0].spec.Change([](spec::JobSpec& spec) { spec.project = "full"; });
  jobs_.Adopt(std::move(contents));
  auto& updater = dispatcher_.updater();
  updater.SetQuota(queue::AccountKind::kProject, "full", {.queued = 2});
  updater.SetQuota(queue::AccountKind::kUser, "ann", {.queued = 3});
  const auto become = [&](std::int64_t id, const char* project) {
    jobs::Job changed = *jobs_.Find({id});
    changed.spec.Change([&](spec::JobSpec& spec) { spec.project = project; });
    return dispatcher_.MayBecome(changed);
  };
  auto second = become(2, "full");
  ASSERT_TRUE(second) << second.error().message << ": the job counts for its user already";
  EXPECT_FALSE(become(3, "full")) << "one is on its way into it";
  EXPECT_TRUE(become(1, "full")) << "it is there";
  EXPECT_TRUE(become(3, "other"));
  second->reset();
  EXPECT_TRUE(become(3, "full"));
}

// Dependencies on so many jobs that nobody has submitted. They are met.
queue::Dependencies OnMany(std::size_t count) {
  queue::Dependencies depends;
  depends.list.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    depends.list.push_back({queue::DependencyKind::kAfterAny, {static_cast<std::int64_t>(1'000 + i)}});
  return depends;
}

TEST_F(DispatcherTest, DependenciesOfAUserHaveABoundWhereverTheyComeFrom) {
  jobs::StoreContents contents;
  for (const std::int64_t id : {1, 2, 3}) contents.jobs.push_back(Waiting(id));
  contents.jobs[0].spec.Change(
      [](spec::JobSpec& spec) { spec.depends = OnMany(queue::kMaxDependenciesOfUser - 5); });
  contents.last_job_id = 3;
  jobs_.Adopt(std::move(contents));
  const auto become = [&](std::int64_t id, std::size_t dependencies) {
    jobs::Job changed = *jobs_.Find({id});
    changed.spec.Change([&](spec::JobSpec& spec) { spec.depends = OnMany(dependencies); });
    return dispatcher_.MayBecome(changed);
  };
  std::optional<base::Result<std::vector<base::JobId>>> answer;
  const auto submit = [&](uid_t user, std::size_t dependencies) {
    auto job = Waiting(0);
    job.state = spec::JobState::kHeld;
    job.owner = jobs::JobOwner{user, ::getgid(), {}, "ann"};
    job.spec.Change([&](spec::JobSpec& spec) { spec.depends = OnMany(dependencies); });
    answer.reset();
    dispatcher_.Submit({job}, [&](auto ids) { answer = std::move(ids); });
    while (!answer) {
      loop_.restart();
      loop_.run_for(1ms);
    }
    return answer->has_value();
  };
  auto change = become(2, 3);
  ASSERT_TRUE(change) << change.error().message;
  EXPECT_FALSE(become(3, 3)) << "three are on their way";
  ASSERT_FALSE(submit(kAnn, 4));
  EXPECT_EQ(answer->error().code, base::ErrorCode::kUnsatisfiable);
  EXPECT_NE(answer->error().message.find("999998 dependencies; with 4 more"), std::string::npos)
      << answer->error().message;
  EXPECT_NE(answer->error().hint.find("put a job between"), std::string::npos) << answer->error().hint;
  EXPECT_TRUE(submit(kAnn + 1, 4)) << "each user has a bound";
  EXPECT_TRUE(submit(kAnn, 0));
  change->reset();
  EXPECT_TRUE(submit(kAnn, 4));
  EXPECT_TRUE(become(1, 2)) << "it gives up more than it takes";
}

// A search for a circle may look at all dependencies that there are: a stored circle shows that there is
// none.
TEST_F(DispatcherTest, OnlyAChangeOfDependenciesLooksForCircles) {
  jobs::StoreContents contents;
  for (const std::int64_t id : {1, 2}) {
    contents.jobs.push_back(Waiting(id));
    contents.jobs.back().spec.Change([&](spec::JobSpec& spec) {
      spec.depends.list = {{queue::DependencyKind::kAfterAny, {3 - id}}};
    });
  }
  jobs_.Adopt(std::move(contents));
  jobs::Job changed = *jobs_.Find({1});
  changed.spec.Change([](spec::JobSpec& spec) { spec.priority = 7; });
  const auto may = dispatcher_.MayBecome(changed);
  EXPECT_TRUE(may) << may.error().message;
  changed.spec.Change(
      [](spec::JobSpec& spec) { spec.depends.list.front().kind = queue::DependencyKind::kAfterOk; });
  const auto refused = dispatcher_.MayBecome(changed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "depends: jobs would wait for each other: 1 -> 2 -> 1");
}

TEST_F(DispatcherTest, AJobWhoseMemoryIsChosenStartsWithWhatIsKnownThen) {
  size_ = base::GiB(3);
  auto job = Waiting(1);
  job.spec.Change([](spec::JobSpec& spec) { spec.memory_auto = true; });
  Adopt(std::move(job));
  dispatcher_.Begin();
  while (jobs::IsWaiting(*jobs_.Find({1}))) {
    clock_.Pass(1s);
    loop_.restart();
    loop_.run_for(1ms);
  }
  EXPECT_EQ(jobs_.Find({1})->spec->memory_on_each, base::GiB(3));
  EXPECT_EQ(told_, std::vector<std::string>{"1, queued: a note"}) << "it was written before the start";
}

TEST_F(DispatcherTest, ARunSetsTheMemoryOfWaitingJobsOfItsUserAndName) {
  size_ = base::GiB(3);
  jobs::StoreContents contents;
  const auto add = [&](std::int64_t id, const char* name, uid_t user, bool chosen, spec::JobState state) {
    auto job = Waiting(id);
    job.tag = name;
    job.owner = jobs::JobOwner{user, user, {}, std::to_string(user)};
    job.state = state;
    job.spec.Change([&](spec::JobSpec& spec) { spec.memory_auto = chosen; });
    contents.jobs.push_back(std::move(job));
  };
  using enum spec::JobState;
  add(1, "train", kAnn, true, kHeld);
  add(2, "train", kAnn, true, kFinished);
  add(3, "train", kAnn, true, kHeld);
  add(4, "eval", kAnn, true, kHeld);
  add(5, "train", kAnn, false, kHeld);
  add(6, "train", kAnn + 1, true, kHeld);
  add(7, "train", kAnn, true, kHeld);
  jobs_.Adopt(std::move(contents));
  dispatcher_.ChooseMemoryAfter(*jobs_.Find({2}));
  while (told_.size() < 2) {
    loop_.restart();
    loop_.run_for(1ms);
  }
  EXPECT_EQ(asked_about_, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(jobs_.Find({7})->spec->memory_on_each, base::GiB(3));
  EXPECT_EQ(jobs_.Find({1})->spec->memory_on_each, std::nullopt) << "its turn is before";
}

TEST_F(DispatcherTest, ASnapshotHasWhatWasChangedBeforeItWasAskedFor) {
  std::vector<std::size_t> seen;
  const auto ask = [&] {
    dispatcher_.WithSnapshot([&](const auto& at) { seen.push_back(at->view().snapshot.waiting.size()); });
  };
  bool there = false;
  ask();
  dispatcher_.Submit(Some(5), [&](const auto&) {
    ask();
    there = true;
  });
  while (!there || seen.size() < 2) {
    clock_.Pass(1ms);
    loop_.restart();
    loop_.run_for(1ms);
  }
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 5}));
}

TEST_F(DispatcherTest, ATaskIsFoundByItsNumberThoughOthersWereForgotten) {
  jobs::StoreContents contents;
  for (const std::int64_t task : {2, 4, 6, 20}) {
    jobs::Job job = Retried(clock_.Wall(), 1s);
    job.not_before.reset();
    job.id = {task == 20 ? 14 : 10 + task / 2};
    job.array = {{10}, task, 0};
    contents.jobs.push_back(job);
  }
  jobs_.Adopt(std::move(contents));
  const auto id = [&](const char* name) {
    return dispatcher_.references().JobsOf(name, 0).value_or(std::vector<base::JobId>{});
  };
  EXPECT_EQ(id("10_4"), std::vector{base::JobId{12}});
  EXPECT_EQ(id("10_2"), std::vector{base::JobId{11}});
  EXPECT_TRUE(id("10_3").empty());
  EXPECT_TRUE(id("10_21").empty());
  EXPECT_TRUE(id("11_2").empty());
}

TEST_F(DispatcherTest, ANameMeansTheCallersOwnJobFirst) {
  jobs::StoreContents contents;
  const auto add = [&](std::int64_t id, uid_t uid, spec::JobState state) {
    jobs::Job job = Retried(clock_.Wall(), 1s);
    job.not_before.reset();
    job.id = {id};
    job.tag = "train";
    job.owner = jobs::JobOwner{uid, uid, {}, std::to_string(uid)};
    job.state = state;
    contents.jobs.push_back(job);
  };
  using enum spec::JobState;
  add(1, 1001, kHeld);
  add(2, 1001, kCancelled);
  add(3, 1002, kHeld);
  add(4, 1003, kCancelled);
  jobs_.Adopt(std::move(contents));
  const auto of = [&](uid_t user) { return dispatcher_.references().JobsOf("train", user)->front().value; };
  EXPECT_EQ(of(1001), 1) << "that has not ended";
  EXPECT_EQ(of(1002), 3);
  EXPECT_EQ(of(1003), 4) << "though it has ended";
  EXPECT_EQ(of(1004), 3) << "the newest of all that has not ended";
}

}  // namespace
}  // namespace gpuman::daemon
