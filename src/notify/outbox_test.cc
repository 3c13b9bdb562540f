#include "notify/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::notify {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr base::Millis kDay{86'400'000};

base::WallTime At(std::int64_t ms) { return base::WallTime(kDay + base::Millis(ms)); }

OutboxMessage Made(std::int64_t number, const std::string& user, const std::string& target) {
  OutboxMessage message;
  message.number = number;
  message.delivery = "d" + std::to_string(number);
  message.user = user;
  message.job = 100 + number;
  message.target = target;
  message.made = At(0);
  message.next = At(0);
  return message;
}

OutboxSettings Settings() {
  OutboxSettings settings;
  settings.retry = {base::Millis(1000), base::Millis(8000), base::Millis(60'000)};
  settings.in_flight = 4;
  settings.per_user = 3;
  settings.keep_failed = base::Millis(10'000);
  return settings;
}

class OutboxTest : public ::testing::Test {
 protected:
  std::vector<std::int64_t> Due(std::int64_t ms) {
    std::vector<std::int64_t> numbers;
    for (const auto& message : outbox.TakeDue(At(ms))) numbers.push_back(message.number);
    return numbers;
  }
  Outbox outbox{Settings()};
  const Attempt fine{200, "", false, {}}, down{0, "refused", false, {}}, gone{410, "", false, {}};
};

TEST_F(OutboxTest, SendsNothingBeforeItIsStored) {
  outbox.Add(Made(1, "ann", "x"), false);
  EXPECT_THAT(Due(0), IsEmpty());
  outbox.Stored(1);
  EXPECT_THAT(Due(0), ElementsAre(1));
  EXPECT_THAT(Due(0), IsEmpty());
}

TEST_F(OutboxTest, KeepsTheOrderForEachReceiver) {
  outbox.Add(Made(1, "ann", "x"), true);
  outbox.Add(Made(2, "ann", "x"), true);
  outbox.Add(Made(3, "bob", "x"), true);
  EXPECT_THAT(Due(0), ElementsAre(1, 3));
  ASSERT_EQ(outbox.RecordAttempt(1, down, At(0))->outcome, DeliveryOutcome::kRetry);
  EXPECT_THAT(Due(100), IsEmpty());  // 2 waits for 1
  const auto next = outbox.NextDue(At(100));
  ASSERT_TRUE(next);
  EXPECT_GT(*next, At(100));
  EXPECT_LE(*next, At(1000));
  EXPECT_THAT(Due(1000), ElementsAre(1));
  EXPECT_EQ(outbox.RecordAttempt(1, fine, At(1001))->outcome, DeliveryOutcome::kDelivered);
  EXPECT_THAT(Due(1001), ElementsAre(2));
}

TEST_F(OutboxTest, UnstoredMessageHoldsBackLaterOnesOfItsReceiver) {
  outbox.Add(Made(1, "ann", "x"), false);
  outbox.Add(Made(2, "ann", "x"), true);
  EXPECT_THAT(Due(0), IsEmpty());
  outbox.Stored(1);
  EXPECT_THAT(Due(0), ElementsAre(1));
}

TEST_F(OutboxTest, GivesNoUserMoreThanHalf) {
  for (int i = 1; i <= 3; ++i) outbox.Add(Made(i, "ann", "x" + std::to_string(i)), true);
  outbox.Add(Made(4, "bob", "y"), true);
  EXPECT_THAT(Due(0), ElementsAre(1, 2, 4));
  outbox.RecordAttempt(1, fine, At(0));
  EXPECT_THAT(Due(0), ElementsAre(3));
}

TEST_F(OutboxTest, KnowsWhenItIsFull) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(outbox.HasRoom("ann"));
    outbox.Add(Made(i, "ann", "x"), true);
  }
  EXPECT_FALSE(outbox.HasRoom("ann"));
  EXPECT_TRUE(outbox.HasRoom("bob"));
  Due(0);
  outbox.RecordAttempt(1, fine, At(0));
  EXPECT_TRUE(outbox.HasRoom("ann"));
  for (int i = 10; i < 38; ++i) outbox.Add(Made(i, "u" + std::to_string(i), "x"), true);
  EXPECT_FALSE(outbox.HasRoom("carol"));  // ten users' worth
}

TEST_F(OutboxTest, GivesUpWhatIsFinalAndWhatIsOld) {
  outbox.Add(Made(1, "ann", "x"), true);
  outbox.Add(Made(2, "ann", "x"), true);
  EXPECT_THAT(Due(0), ElementsAre(1));
  const auto first = outbox.RecordAttempt(1, gone, At(5));
  EXPECT_EQ(first->outcome, DeliveryOutcome::kGivenUp);
  EXPECT_TRUE(first->message.failed);
  EXPECT_EQ(first->message.problem, "the receiver answered 410");
  EXPECT_THAT(Due(5), ElementsAre(2));
  EXPECT_EQ(outbox.RecordAttempt(2, down, At(60'000))->outcome, DeliveryOutcome::kGivenUp);
  EXPECT_FALSE(outbox.RecordAttempt(2, down, At(60'000)));
  EXPECT_FALSE(outbox.NextDue(At(60'000)));
}

TEST_F(OutboxTest, KeepsWhatFailedForAWhile) {
  outbox.Add(Made(1, "ann", "x"), true);
  Due(0);
  outbox.RecordAttempt(1, gone, At(0));
  ASSERT_EQ(outbox.OfJob(101).size(), 1U);
  EXPECT_TRUE(outbox.OfJob(101)[0]->failed);
  EXPECT_THAT(outbox.Prune(At(9'999)), IsEmpty());
  EXPECT_THAT(outbox.Prune(At(10'000)), ElementsAre(1));
  EXPECT_THAT(outbox.OfJob(101), IsEmpty());
  EXPECT_EQ(outbox.size(), 0U);
}

TEST_F(OutboxTest, GoesOnWhereItWasAfterARestart) {
  outbox.Add(Made(1, "ann", "x"), true);
  Due(0);
  const OutboxMessage failed_once = outbox.RecordAttempt(1, down, At(0))->message;
  Outbox again{Settings()};
  again.Add(*ParseMessage(1, SerializeMessage(failed_once)), true);
  EXPECT_THAT(again.TakeDue(At(1)), IsEmpty());
  const auto taken = again.TakeDue(At(1000));
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].delivery, "d1");
  EXPECT_EQ(taken[0].attempts, 1);
}

TEST_F(OutboxTest, AClockThatIsSetBackKeepsNothingWaiting) {
  auto message = Made(1, "ann", "x");
  message.next = At(kDay.count());
  outbox.Add(message, true);
  EXPECT_THAT(Due(0), ElementsAre(1));
}

}  // namespace
}  // namespace gpuman::notify
