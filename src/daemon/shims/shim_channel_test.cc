// Tests where the daemon looks for the ledger of a job of an earlier daemon.
#include "daemon/shims/shim_channel.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "base/process.h"
#include "base/test_temp_dir.h"
#include "ledger/ledger_mapping.h"
#include "ledger/wire/words.h"

namespace gpuman::daemon {
namespace {

constexpr base::JobId kJob{7};
const std::string kGpu = "GPU-00112233-4455-6677-8899-aabbccddeeff";

// This process has a descriptor of a ledger of the job, as a keeper does.
class AdoptedLedgerTest : public testing::Test {
 protected:
  AdoptedLedgerTest() : planted_(std::move(*ledger::LedgerMapping::Create(kJob.value))) {
    ledger::wire::Store(planted_->gpus, 1u);
    ledger::wire::Store(planted_->gpu[0].peak, std::uint64_t{5} << 20);
    auto channel = ShimChannel::Open(
        loop_, dir_.path() / "shim.sock", 0600, table_,
        [](const ledger::LedgerRequest&) { return ledger::JobAttribution{}; },
        [](base::JobId, const ledger::LedgerRequest&, std::uint32_t) {});
    channel_ = std::move(*channel);
  }

  // Returns whether the channel uses the ledger of this process for a job of that keeper.
  bool Adopts(base::ProcessId keeper, const ShimChannel::SavedLedger& saved = {}) {
    EXPECT_TRUE(channel_->SetJob(kJob, {keeper, {}}, {}, {}, saved));
    const auto file = channel_->LedgerOf(kJob);
    const auto page =
        ledger::LedgerMapping::Adopt(base::Fd(::fcntl(file->get(), F_DUPFD_CLOEXEC, 0)), kJob.value);
    const bool adopts = page && ledger::wire::Load((*page)->gpu[0].peak) != 0;
    channel_->RemoveJob(kJob);
    return adopts;
  }

  boost::asio::io_context loop_;
  const base::TempDir dir_;
  const base::ProcFs table_;
  ledger::LedgerMapping planted_;
  std::unique_ptr<ShimChannel> channel_;
};

TEST_F(AdoptedLedgerTest, IsThatWhichTheKeeperHolds) { EXPECT_TRUE(Adopts(base::SelfId())); }

TEST_F(AdoptedLedgerTest, IsNotThatOfAProcessThatHasThePidOfTheKeeperNow) {
  auto other = base::SelfId();
  --other.start_time;
  EXPECT_FALSE(Adopts(other));
}

TEST_F(AdoptedLedgerTest, IsMadeFromWhatTheKeeperHasSavedWhereNoProcessHasIt) {
  auto gone = base::SelfId();
  --gone.start_time;
  std::string bytes(sizeof(ledger::wire::Ledger), '\0');
  ASSERT_EQ(::pread(planted_.descriptor(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(Adopts(gone, [&] { return base::Result<std::string>(bytes); }));
  EXPECT_FALSE(Adopts(gone, [] { return base::Result<std::string>("no ledger"); }));
}

// What a context takes on a GPU is known before the job's limits are.
TEST_F(AdoptedLedgerTest, KeepsItsLimitsUntilTheChannelIsGivenSome) {
  ledger::wire::Store(planted_->gpu[0].limit, std::uint64_t{4096});
  ASSERT_TRUE(channel_->SetJob(kJob, {base::SelfId(), {}}, {}, {}, {}));
  channel_->ExpectContext(kGpu, base::Bytes{1});
  EXPECT_EQ(ledger::wire::Load(planted_->gpu[0].limit), 4096u);
}

}  // namespace
}  // namespace gpuman::daemon
