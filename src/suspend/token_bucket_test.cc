#include "suspend/token_bucket.h"

#include <gtest/gtest.h>

namespace gpuman::suspend {
namespace {

using base::Millis;

const base::MonoTime kStart = base::MonoTime{} + std::chrono::hours(1);

TEST(TokenBucket, AMessageWithinTheAllowanceIsReadAtOnce) {
  TokenBucket allowance(1000, 100);
  EXPECT_EQ(allowance.Spend(600, kStart), Millis(0));
  EXPECT_EQ(allowance.Spend(400, kStart), Millis(0));
}

TEST(TokenBucket, AMessageBeyondTheAllowanceIsReadLater) {
  TokenBucket allowance(1000, 100);
  EXPECT_EQ(allowance.Spend(1200, kStart), Millis(2000));
  EXPECT_EQ(allowance.Spend(100, kStart + Millis(2000)), Millis(1000));
}

TEST(TokenBucket, ALongSilenceRestoresTheAllowanceAndNoMore) {
  TokenBucket allowance(1000, 100);
  EXPECT_EQ(allowance.Spend(1000, kStart), Millis(0));
  EXPECT_EQ(allowance.Spend(1000, kStart + std::chrono::hours(100'000)), Millis(0));
  EXPECT_EQ(allowance.Spend(100, kStart + std::chrono::hours(100'000)), Millis(1000));
}

TEST(TokenBucket, ManySmallWordsInOneMillisecondAreCounted) {
  TokenBucket allowance(1000, 100);
  Millis wait{0};
  for (int i = 0; i < 1100; ++i) wait = allowance.Spend(1, kStart + std::chrono::microseconds(i));
  EXPECT_EQ(wait, Millis(1000));
}

}  // namespace
}  // namespace gpuman::suspend
