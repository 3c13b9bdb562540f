// What the tests of JobQuiescer have in common: the daemon's side of the shims' socket, and processes of jobs
// as FakeShim plays them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/test_temp_dir.h"
#include "daemon/shims/job_quiescer.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/shims/test_fake_shim.h"

namespace gpuman::daemon {

inline constexpr base::JobId kJob{7}, kOther{8};
inline constexpr base::Millis kLimit{400};
inline constexpr std::uint64_t kForNow =
    1400;  // patience of the hold in an attempt of kLimit: a second longer
inline constexpr std::uint64_t kForGood = 0;
inline constexpr std::uint16_t kFirstGpu = 1, kSecondGpu = 2, kBothGpus = 3;
inline const std::vector<std::string> kGpus{"GPU-00112233-4455-6677-8899-aabbccddeeff",
                                            "GPU-11112233-4455-6677-8899-aabbccddeeff"};

// The time of the attempts, which the test sets. The machine's own time drives their timers: those of a time
// that is over fire at once, so that the quiescer looks all the time, and those of a time to come never do.
class SetClock final : public base::Clock {
 public:
  enum class Timers { kAlways, kNever, kAsSet };
  void Use(Timers timers) {
    follows_ = timers == Timers::kAsSet;
    now_ = timers == Timers::kNever ? std::chrono::steady_clock::now() + std::chrono::hours(1) : kPast;
  }
  void Advance(base::Millis span) { now_ += span; }
  base::MonoTime Mono() const override { return follows_ ? std::chrono::steady_clock::now() : now_; }
  base::WallTime Wall() const override { return {}; }

 private:
  static constexpr base::MonoTime kPast{std::chrono::milliseconds(1)};
  bool follows_ = false;
  base::MonoTime now_ = kPast;
};

// The result of an attempt.
struct Attempt {
  JobQuiescer::AttemptId id = 0;
  int answers = 0;
  JobQuiescer::Result result{};
};

class JobQuiescerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto channel = ShimChannel::Open(
        loop_, socket_, 0600, table_,
        [](const ledger::LedgerRequest& caller) {
          return ledger::JobAttribution{ledger::AttributionOutcome::kJob, caller.claimed_job.value()};
        },
        [](base::JobId, const ledger::LedgerRequest&, std::uint32_t) {});
    ASSERT_TRUE(channel);
    channel_ = std::move(*channel);
    quiescer_.emplace(loop_, clock_, *channel_, [](const std::string& uuid) {
      return fmt::format("GPU {}", uuid == kGpus[0] ? 0 : 1);
    });
    channel_->on_notify.Connect([this](base::JobId job) {
      ++notified_;
      if (quiescer_) quiescer_->OnNotify(job);
    });
    SetJob(kJob);
  }

  void SetJob(base::JobId job) {
    std::vector<ledger::GpuLimit> limits;
    limits.reserve(kGpus.size());
    for (const auto& uuid : kGpus) limits.push_back({uuid, base::Bytes{1 << 30}, {}, {}});
    ASSERT_TRUE(channel_->SetJob(job, tree_, limits, {true, {}, {}}));
  }

  // A process without a context yet.
  FakeShim& Joins(base::JobId job = kJob) {
    shims_.push_back(std::make_unique<FakeShim>(socket_, job, [this] { loop_.run_one_for(kMoment); }));
    EXPECT_TRUE(shims_.back()->joined());
    return *shims_.back();
  }
  // A process that runs.
  FakeShim& Process(base::JobId job = kJob) {
    FakeShim& shim = Joins(job);
    shim.MakesContext();
    return shim;
  }

  std::shared_ptr<Attempt> Begin(base::JobId job = kJob, base::Millis limit = kLimit, bool in_part = false) {
    auto attempt = std::make_shared<Attempt>();
    const auto done = [attempt](const JobQuiescer::Result& result) {
      ++attempt->answers;
      attempt->result = result;
    };
    attempt->id = in_part ? quiescer_->BeginInPart(job, limit, done) : quiescer_->Begin(job, limit, done);
    EXPECT_EQ(attempt->answers, 0) << "the answer comes later";
    return attempt;
  }

  // Lets the quiescer look many times; nothing that it waits for comes meanwhile.
  void Look() {
    for (int i = 0; i < 100; ++i) {
      loop_.restart();
      loop_.poll_one();
    }
  }
  // Returns whether the loop has nothing to do at some moment.
  bool Sleeps() {
    for (int i = 0; i < 1000; ++i)
      if (loop_.poll_one() == 0) return true;
    return false;
  }
  // Returns false if the condition has not held within half a minute.
  template <typename Condition>
  bool Until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      loop_.restart();
      loop_.run_one_for(kMoment);
    }
    return condition();
  }
  JobQuiescer::Result ResultOf(const std::shared_ptr<Attempt>& attempt) {
    EXPECT_TRUE(Until([&] { return attempt->answers > 0; })) << "it has no end";
    Look();
    EXPECT_EQ(attempt->answers, 1);
    EXPECT_FALSE(quiescer_->ProgressOf(kJob));
    return attempt->result;
  }
  // Orders the shim to run after it was held.
  void IsToRunAgain(FakeShim& shim) {
    ASSERT_TRUE(channel_->OrderAll(kJob, {ledger::wire::OrderKind::kHold}));
    shim.IsHeld();
    ASSERT_TRUE(channel_->OrderAll(kJob, {ledger::wire::OrderKind::kRun}));
  }
  // Lets all shims take the final hold.
  void AreHeldForGood(const std::vector<FakeShim*>& shims, std::uint16_t waits = 0) {
    for (FakeShim* const shim : shims) {
      EXPECT_TRUE(Until([&] { return shim->HasOrder() && shim->patience() == kForGood; }));
      EXPECT_EQ(shim->ordered(), ledger::wire::OrderKind::kHold);
    }
    for (FakeShim* const shim : shims) shim->IsHeld(waits);
  }
  bool IsTold(const FakeShim& shim, std::uint64_t patience) {
    return shim.HasOrder() && shim.ordered() == ledger::wire::OrderKind::kHold && shim.patience() == patience;
  }
  std::string Says(const FakeShim& shim, const std::string& what) {
    return fmt::format("process {} {}", shim.process().pid, what);
  }
  const JobQuiescer::Totals& OfOne() { return quiescer_->TotalsOf(false); }
  const JobQuiescer::Totals& OfSeveral() { return quiescer_->TotalsOf(true); }

  static constexpr base::Millis kMoment{10};
  boost::asio::io_context loop_;
  SetClock clock_;
  base::ProcFs table_;
  const keeper::ProcessTree tree_{{1, UINT64_MAX}, {}};  // no earlier daemon has known the keeper
  base::TempDir dir_;
  std::filesystem::path socket_ = dir_.path() / "shim.sock";
  std::unique_ptr<ShimChannel> channel_;
  std::optional<JobQuiescer> quiescer_;
  std::vector<std::unique_ptr<FakeShim>> shims_;
  int notified_ = 0;
};

}  // namespace gpuman::daemon
