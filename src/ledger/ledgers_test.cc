#include "ledger/ledgers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "ledger/wire/books.h"
#include "ledger/wire/slot_lock.h"

namespace gpuman::ledger {
namespace {

constexpr base::JobId kJob{7};
const std::string kFirst = "GPU-00112233-4455-6677-8899-aabbccddeeff";
const std::string kSecond = "GPU-ffffffff-4455-6677-8899-aabbccddeeff";

GpuLimit Limit(const std::string& uuid, std::uint64_t hard) { return {uuid, base::Bytes{hard}, {}, {}}; }

// A process's view, as the shim maps it.
class Mapped {
 public:
  explicit Mapped(base::Fd& owner)
      : at_(::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, owner.get(), 0)) {
    owner.Close();
  }
  ~Mapped() { ::munmap(at_, sizeof(wire::Ledger)); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  wire::Ledger& operator*() const { return *static_cast<wire::Ledger*>(at_); }

 private:
  void* at_;
};

TEST(ParseUuid, ReadsThirtyTwoDigitsAndNothingElse) {
  ASSERT_TRUE(ParseUuid(kFirst));
  EXPECT_EQ((*ParseUuid(kFirst))[1], 0x11);
  EXPECT_EQ((*ParseUuid(kFirst))[15], 0xff);
  EXPECT_TRUE(ParseUuid("MIG-00112233-4455-6677-8899-AABBCCDDEEFF"));
  for (const char* bad :
       {"", "GPU-", "GPU-00112233-4455-6677-8899-aabbccddeef", "0", "GPU-zz112233445566778899aabbccddeeff",
        "GPU-00112233-4455-6677-8899-aabbccddeeff0"})
    EXPECT_FALSE(ParseUuid(bad)) << bad;
}

TEST(Ledgers, RefuseLimitsThatMakeNoSense) {
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Create(kJob, std::vector{Limit("0", 1)}));
  EXPECT_FALSE(ledgers.Create(kJob, std::vector{Limit(kFirst, 1), Limit(kFirst, 2)}));
  EXPECT_FALSE(ledgers.Create(kJob, std::vector<GpuLimit>(17, Limit(kFirst, 1))));
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 1)}));
  EXPECT_EQ(ledgers.Create(kJob, std::vector{Limit(kFirst, 1)}).error().code,
            base::ErrorCode::kAlreadyExists);
  EXPECT_EQ(ledgers.SetLimits({8}, {}).error().code, base::ErrorCode::kNotFound);
  EXPECT_EQ(ledgers.Join({8}, base::SelfId()).error().code, base::ErrorCode::kNotFound);
}

TEST(Ledgers, AProcessHoldsItsSlotByItsMappingAlone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 1 << 20)}));
  auto seat = ledgers.Join(kJob, base::SelfId());
  ASSERT_TRUE(seat);
  {
    const Mapped mapped(seat->owner);
    EXPECT_EQ(wire::Reserve(*mapped, 0, seat->slot, 4096), wire::Outcome::kDone);
    EXPECT_TRUE(ledgers.Registered(kJob, base::SelfId()));
    EXPECT_EQ(ledgers.Reclaim(kJob), 0u);
    EXPECT_EQ(ledgers.UsageOf(kJob).at(0).used.count, 4096u);
    auto other = ledgers.Join(kJob, base::SelfId());
    ASSERT_TRUE(other);
    EXPECT_NE(other->slot, seat->slot);
  }
  EXPECT_FALSE(ledgers.Registered(kJob, base::SelfId()));
  EXPECT_EQ(ledgers.Reclaim(kJob), 2u);
  EXPECT_EQ(ledgers.UsageOf(kJob).at(0).used.count, 0u);
}

TEST(Ledgers, ASlotThatComesToAnotherProcessIsEmpty) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 1 << 20)}));
  auto first = ledgers.Join(kJob, base::SelfId());
  const unsigned slot = first->slot;
  {
    const Mapped mapped(first->owner);
    wire::Reserve(*mapped, 0, slot, 4096);
  }
  auto second = ledgers.Join(kJob, base::SelfId());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->slot, slot);
  EXPECT_EQ(ledgers.UsageOf(kJob).at(0).used.count, 0u);
}

TEST(Ledgers, HaveRoomForAThousandProcessesAndSayWhenItIsGone) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 1 << 20)}));
  std::vector<std::unique_ptr<Mapped>> processes;
  for (unsigned i = 0; i < wire::kSlots; ++i) {
    auto seat = ledgers.Join(kJob, base::SelfId());
    ASSERT_TRUE(seat) << i;
    processes.push_back(std::make_unique<Mapped>(seat->owner));
  }
  EXPECT_EQ(ledgers.Join(kJob, base::SelfId()).error().code, base::ErrorCode::kExhausted);
  processes.pop_back();
  EXPECT_TRUE(ledgers.Join(kJob, base::SelfId()));
}

TEST(Ledgers, LimitsChangeWhileProcessesRun) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 8192)}));
  auto seat = ledgers.Join(kJob, base::SelfId());
  const Mapped mapped(seat->owner);
  EXPECT_EQ(wire::Reserve(*mapped, 0, seat->slot, 16384), wire::Outcome::kRefused);
  const auto changes = (*mapped).changes;
  ASSERT_TRUE(ledgers.SetLimits(kJob, std::vector{Limit(kFirst, 16384), Limit(kSecond, 4096)}));
  EXPECT_NE((*mapped).changes, changes);
  EXPECT_EQ(wire::Reserve(*mapped, 0, seat->slot, 16384), wire::Outcome::kDone);
  EXPECT_EQ((*mapped).gpu[1].limit, 4096u);
  ASSERT_TRUE(ledgers.SetLimits(kJob, std::vector{Limit(kSecond, 4096)}));
  EXPECT_EQ((*mapped).gpu[0].limit, wire::kNoLimit);
}

TEST(Ledgers, NoticeThatAProgramHasOverwrittenTheLedger) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 8192)}));
  auto seat = ledgers.Join(kJob, base::SelfId());
  const Mapped mapped(seat->owner);
  EXPECT_TRUE(ledgers.Intact(kJob));
  (*mapped).gpu[0].limit = 1 << 30;
  EXPECT_FALSE(ledgers.Intact(kJob));
  ASSERT_TRUE(ledgers.SetLimits(kJob, std::vector{Limit(kFirst, 8192)}));
  EXPECT_TRUE(ledgers.Intact(kJob));
  (*mapped).gpus = 4000;
  EXPECT_FALSE(ledgers.Intact(kJob));
  EXPECT_EQ(ledgers.UsageOf(kJob).size(), 1u);
}

TEST(Ledgers, NobodyCanChangeTheSizeOfTheFile) {
  Ledgers ledgers;
  ASSERT_TRUE(ledgers.Create(kJob, std::vector{Limit(kFirst, 8192)}));
  auto seat = ledgers.Join(kJob, base::SelfId());
  EXPECT_NE(::ftruncate(seat->file.get(), 0), 0);
  EXPECT_NE(::fcntl(seat->file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(Ledgers, ANewDaemonTakesOverTheLedgerThatProcessesUse) {
  auto before = std::make_unique<Ledgers>();
  ASSERT_TRUE(before->Create(kJob, std::vector{Limit(kFirst, 8192)}));
  auto seat = before->Join(kJob, base::SelfId());
  const Mapped mapped(seat->owner);
  wire::Reserve(*mapped, 0, seat->slot, 4096);
  before.reset();
  Ledgers ledgers;
  EXPECT_FALSE(ledgers.Adopt({8}, base::Fd(::fcntl(seat->file.get(), F_DUPFD_CLOEXEC, 0)), {}));
  EXPECT_FALSE(ledgers.Adopt(kJob, base::Fd(::open("/dev/null", O_RDWR)), {}));
  EXPECT_FALSE(ledgers.Adopt(kJob, base::Fd(::memfd_create("x", 0)), {}));
  ASSERT_TRUE(ledgers.Adopt(kJob, std::move(seat->file), std::vector{Limit(kFirst, 4096)}));
  EXPECT_EQ(ledgers.UsageOf(kJob).at(0).used.count, 4096u);
  EXPECT_EQ(ledgers.HeldBy(kJob, base::SelfId(), kFirst), base::Bytes{4096})
      << "who sits there is known again";
  EXPECT_EQ(ledgers.Reclaim(kJob), 0u);
  EXPECT_EQ(wire::Reserve(*mapped, 0, seat->slot, 4096), wire::Outcome::kRefused);
}

}  // namespace
}  // namespace gpuman::ledger
