// Jobs on two to all GPUs (gangs) among jobs on one: what must always hold, in the model of test_world.h.
#include "share/test_random_world.h"

namespace gpuman::share {
namespace {

class GangWorld : public RandomWorld {
 public:
  GangWorld(std::uint64_t seed, bool faults, SchedulerSettings settings, unsigned gpus,
            base::Bytes gpu = base::GiB(16))
      : RandomWorld(seed, faults, std::move(settings), gpu, gpus), gpus_(gpus) {}

  // A third of the jobs need several GPUs, with as much memory on each.
  void StartAny() override {
    Program program;
    const std::uint64_t first = Below(gpus_);
    const std::uint64_t count = Below(3) == 0 ? 2 + Below(gpus_ - 1) : 1;
    const base::Bytes bytes = Parts(200 + Below(15'000));
    for (std::uint64_t i = 0; i < count; ++i) program.memory[Name((first + i) % gpus_)] = bytes;
    SetManner(program);
    Start(std::move(program));
  }
  void RandomEvent() override {
    if (!jobs_.empty() && Below(4) == 0) return Grow(Any(), AnyGpu(), Parts(100 + Below(4'000)));
    RandomWorld::RandomEvent();
  }
  // A gang on two GPUs.
  TenantId StartGang(base::Bytes bytes) {
    Program program;
    const std::uint64_t first = Below(gpus_);
    for (const std::uint64_t gpu : {first, (first + 1) % gpus_}) program.memory[Name(gpu)] = bytes;
    return Start(std::move(program));
  }
  void GrowOnOne(TenantId id, base::Bytes bytes) {
    const auto& memory = jobs_.at(id).program.memory;
    Grow(id, Below(2) == 0 ? memory.begin()->first : memory.rbegin()->first, bytes);
  }
  // A little more on a GPU where it has less than `bytes`; false: there is none.
  bool GrowTowards(TenantId id, base::Bytes bytes) {
    std::vector<std::string> gpus;
    for (const auto& [gpu, has] : jobs_.at(id).program.memory)
      if (has < bytes) gpus.push_back(gpu);
    if (gpus.empty()) return false;
    Grow(id, gpus[Below(gpus.size())], base::MiB(1 + Below(1500)));
    return true;
  }
  int Most() const override { return static_cast<int>(gpus_ + gpus_ / 2); }

  // The longest time for which a job stood at its gate though it fitted beside all that ran or came.
  Span stood_beside_room() const { return stood_beside_room_; }

 protected:
  // The other parts of a gang wait for the part that waits for room on its GPU.
  std::optional<Span> ClosesAfter(const Job& job) override {
    if (faults() && job.program.IsGang() && Below(3) == 0) return std::nullopt;
    return RandomWorld::ClosesAfter(job);
  }
  bool SpinsForRoom(const Job& job) const override {
    if (!job.program.IsGang()) return false;
    return !job.growth.empty() || (!job.wanted.empty() && job.wanted.size() < job.program.memory.size());
  }
  void Check() override {
    for (const auto& [id, job] : jobs_) {
      if (!job.alive || !job.stands || !HasRoom(job)) {
        room_since_.erase(id);
        continue;
      }
      const auto since = room_since_.try_emplace(id, now_).first->second;
      stood_beside_room_ = std::max(stood_beside_room_, now_ - since);
    }
  }

 private:
  static std::string Name(std::uint64_t gpu) { return std::string(1, static_cast<char>('a' + gpu)); }
  // Two gangs that may both still grow do not run together.
  static bool MayGrow(const Job& job) { return job.program.IsGang() && job.computed <= kSteady; }
  bool HasRoom(const Job& job) const {
    if (MayGrow(job)) return false;
    return std::all_of(job.program.memory.begin(), job.program.memory.end(), [&](const auto& part) {
      base::Bytes sum = job.Of(part.first) + Wants(job, part.first);
      for (const auto& [id, other] : jobs_) {
        if (&other == &job || !other.alive || other.parked) continue;
        if (other.open || other.closing || other.restore != 0)
          sum += other.Of(part.first) + Wants(other, part.first);
        else if (other.program.memory.count(part.first) > 0)
          sum += other.program.pinned;
      }
      return sum <= capacities_.at(part.first);
    });
  }

  unsigned gpus_;
  std::map<TenantId, base::MonoTime> room_since_;
  Span stood_beside_room_{};
};

std::string LiveFrom(std::uint64_t seed, unsigned gpus) {
  std::mt19937_64 random(seed);
  GangWorld world(seed, /*faults=*/true, SettingsOf(random), gpus);
  return Live(world);
}

TEST(ShareGangProperty, CapacityHoldsAndNoJobStaysClosed) {
  for (const unsigned gpus : {4u, 8u}) {
    for (std::uint64_t seed = 1; seed <= 3 && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::to_string(gpus) + " GPUs, world " + std::to_string(seed));
      LiveFrom(seed, gpus);
    }
  }
}

TEST(ShareGangProperty, WithSharesOfTheTimeCapacityHoldsAndNoJobStaysClosed) {
  for (const unsigned gpus : {4u, 8u}) {
    for (std::uint64_t seed = 1; seed <= 3 && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::to_string(gpus) + " GPUs, world " + std::to_string(seed));
      std::mt19937_64 random(seed);
      GangWorld world(seed, /*faults=*/true, SettingsOf(random), gpus);
      world.GiveShares();
      Live(world);
    }
  }
}

TEST(ShareGangProperty, NobodyWaitsForLongerThanTheBound) {
  for (const unsigned gpus : {4u, 8u}) {
    for (std::uint64_t seed = 1; seed <= 3 && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::to_string(gpus) + " GPUs, world " + std::to_string(seed));
      std::mt19937_64 random(seed);
      SchedulerSettings settings = SettingsOf(random);
      settings.policy = PolicyKind::kFair;
      GangWorld world(seed, false, settings, gpus);
      for (unsigned i = 0; i < gpus + gpus / 2; ++i) world.StartAny();
      const Span bound = world.Bound();
      world.RunFor(120s);
      Span longest{};
      for (auto& [id, job] : world.jobs()) {
        const Span now = world.now() - job.stands.value_or(world.now());
        for (const Span stood : job.stood) longest = std::max(longest, stood);
        longest = std::max(longest, now);
      }
      EXPECT_LE(longest, bound);
      EXPECT_LE(world.stood_beside_room(), world.LongestHandOver()) << "a GPU stood empty";
    }
  }
}

// Gangs that have all of the memory and then want more, each on one of its GPUs: those that stand in each
// other's way are denied one after the other, the last first, and all others get their room.
TEST(ShareGangProperty, OfGangsThatWaitForEachOthersRoomNoneWaitsForEver) {
  int denied = 0;
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    GangWorld world(seed, /*faults=*/false, {}, 3);
    const auto jobs = static_cast<int>(2 + world.Below(3));
    std::vector<TenantId> ids;
    ids.reserve(static_cast<std::size_t>(jobs));
    for (int i = 0; i < jobs; ++i) ids.push_back(world.StartGang(base::MiB(3000 + world.Below(4500))));
    world.RunFor(100s);
    std::map<TenantId, Span> computed;
    for (const TenantId id : ids) {
      if (world.Below(4) != 0) world.GrowOnOne(id, base::MiB(3000 + world.Below(5000)));
      if (world.Below(2) == 0) world.RunFor(world.Time(3000));
      computed[id] = world.job(id).computed;
    }
    world.RunFor(600s);
    for (const TenantId id : ids) {
      const auto& job = world.job(id);
      EXPECT_TRUE(!job.alive || (job.growth.empty() && job.computed > computed[id])) << "job " << id.value;
    }
    EXPECT_LT(world.denied(), jobs);
    denied += world.denied();
  }
  EXPECT_GT(denied, 0);
}

// Gangs that start at once, and get to most of the memory little by little, now on this GPU and now on that.
TEST(ShareGangProperty, OfGangsThatStartAtOnceNoneIsDenied) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    GangWorld world(seed, /*faults=*/false, {}, 3);
    const auto jobs = static_cast<int>(2 + world.Below(2));
    std::vector<TenantId> ids;
    ids.reserve(static_cast<std::size_t>(jobs));
    for (int i = 0; i < jobs; ++i) ids.push_back(world.StartGang(base::MiB(100)));
    const auto whole = [&](TenantId id) { return !world.GrowTowards(id, base::GiB(11)); };
    for (int i = 0; i < 4000 && world.denied() == 0; ++i) {
      if (std::count_if(ids.begin(), ids.end(), whole) == jobs) break;
      world.RunFor(world.Time(300));
    }
    EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), whole));
    EXPECT_EQ(world.denied(), 0);
  }
}

TEST(ShareGangProperty, TenThousandHandOversLoseNothing) {
  std::uint64_t hand_overs = 0;
  for (std::uint64_t seed = 100; hand_overs < 10'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("world " + std::to_string(seed));
    std::mt19937_64 random(seed);
    SchedulerSettings settings = SettingsOf(random);
    settings.quantum_min = settings.quantum_max = 100ms;
    GangWorld world(seed, /*faults=*/seed % 2 == 0, settings, seed % 4 < 2 ? 4 : 8, base::GiB(1));
    for (int i = 0; i < 8; ++i) world.StartAny();
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      world.RunFor(5s);
      world.ExpectNothingLost();
    }
    hand_overs += world.HandOvers();
    ASSERT_LT(seed, 1000u) << "only " << hand_overs;
  }
}

}  // namespace
}  // namespace gpuman::share
