#include "keeper/recovery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/file.h"
#include "base/test_temp_dir.h"
#include "keeper/job_dir.h"

namespace gpuman::keeper {
namespace {

using ::testing::HasSubstr;

KeeperStarted Keeper(const std::string& key) { return {{100, 5000}, "boot", "", key, "0.1"}; }

// A job whose command runs: its journal, and what is known of it elsewhere.
class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    Add(Keeper("first"));
    Add(RunStarted{1, {101, 5001}, {}});
    evidence_.in_charge = Keeper("first");
  }

  void Add(RecordBody body) { text_ += EncodeLine({++last_, {}, {}, std::move(body)}); }
  std::optional<base::Error> Damage(const std::string& text) {
    std::ofstream(dir_.path() / "journal", std::ios::trunc) << text;
    return DamageOf(RecoverJournal(dir_.path()).value(), evidence_, dir_.path());
  }
  std::string Message(const std::string& text) {
    const auto damage = Damage(text);
    return damage ? damage->message : "none";
  }

  base::TempDir dir_;
  std::string text_;
  std::uint64_t last_ = 0;
  JournalLossEvidence evidence_{{}, "boot", 0};
};

TEST_F(RecoveryTest, AWholeOrTornJournalIsNotDamaged) {
  EXPECT_FALSE(Damage(text_));
  EXPECT_FALSE(Damage(text_ + "12345678 {\"seq\":3,"));
  evidence_.known_records = 2;
  EXPECT_FALSE(Damage(text_));
  evidence_ = {{}, "boot", 0};
  EXPECT_FALSE(Damage("")) << "no keeper has begun";
  EXPECT_FALSE(Damage("1234")) << "the first keeper was killed at once";
}

// The promise: whatever byte is altered, a keeper knows that the run began, or refuses.
TEST_F(RecoveryTest, WithAnAlteredByteNoKeeperTakesTheJobForOneThatHasNotRun) {
  for (const bool noted : {true, false}) {
    if (!noted) evidence_.in_charge.reset();
    for (std::size_t at = 0; at < text_.size(); ++at)
      for (const int bits : {0x01, 0x20, 0xff}) {
        std::string altered = text_;
        altered[at] = static_cast<char>(altered[at] ^ bits);
        if (Damage(altered)) continue;
        const auto recovered = RecoverJournal(dir_.path()).value();
        ASSERT_TRUE(recovered.history.run_open && recovered.history.keeper) << at << " " << bits;
      }
  }
}

TEST_F(RecoveryTest, NamesTheFileAndTheLine) {
  const auto file = (dir_.path() / "journal").string();
  EXPECT_EQ(Message("x" + text_.substr(1)), "line 1 of " + file + " is damaged");
  std::string second = text_;
  second[second.find('\n') + 30] ^= 1;
  EXPECT_EQ(Message(second), "line 2 of " + file + " is damaged");
}

TEST_F(RecoveryTest, AKeeperWhoseRecordIsGoneIsMissed) {
  for (const std::string& left : {std::string(), std::string(text_.size(), '\0'), text_.substr(0, 20)})
    EXPECT_THAT(Message(left), HasSubstr("the record of the last keeper is not in it any more")) << left;
  evidence_.in_charge = Keeper("second");
  EXPECT_THAT(Message(text_), HasSubstr("the record of the last keeper"));
  evidence_.boot_id = "later";
  EXPECT_FALSE(Damage(text_)) << "the record was not on the disk when the machine went down";
}

TEST_F(RecoveryTest, ARecordThatTheDaemonHasSeenIsMissed) {
  const auto first = text_.substr(0, text_.find('\n') + 1);
  EXPECT_FALSE(Damage(first)) << "nobody knows of another";
  evidence_.known_records = 2;
  EXPECT_THAT(Message(first), HasSubstr("it ends with record 1, and record 2 was in it before"));
  evidence_.in_charge.reset();
  EXPECT_THAT(Message(""), HasSubstr("it ends with record 0"));
  evidence_.known_records = 1;
  EXPECT_FALSE(Damage("")) << "the first record is synced with the second";
}

TEST_F(RecoveryTest, AJournalWithoutAKeeperIsDamaged) {
  evidence_.in_charge.reset();
  EXPECT_THAT(Message(text_.substr(text_.find('\n') + 1)),
              HasSubstr("line 1 does not name the job's keeper"));
}

TEST_F(RecoveryTest, TheNoteOfAKeeperOutlivesItAndTheNextOnesLock) {
  const auto note = [&] { return LastInCharge(base::OpenFile(dir_.path() / "lock", O_RDWR)->get()); };
  {
    const auto lock = TakeLock(dir_.path()).value();
    EXPECT_FALSE(LastInCharge(lock.get()));
    NoteInCharge(lock.get(), {1, {}, {}, Keeper("a much longer key than the next one")});
    NoteInCharge(lock.get(), {1, {}, {}, Keeper("first")});
  }
  const auto lock = TakeLock(dir_.path()).value();
  EXPECT_EQ(note(), Keeper("first"));
  EXPECT_EQ(base::ReadFile(dir_.path() / "lock").value().find(std::to_string(base::SelfId().pid)), 0u);
}

}  // namespace
}  // namespace gpuman::keeper
