#include "notify/retry.h"

#include <gtest/gtest.h>

#include <set>

namespace gpuman::notify {
namespace {

Message To(Channel channel) {
  Message message;
  message.channel = channel;
  return message;
}

TEST(Judge, OfAWebhook) {
  const Message webhook = To(Channel::kWebhook);
  const std::pair<int, Verdict> table[] = {
      {200, Verdict::kDelivered}, {204, Verdict::kDelivered}, {301, Verdict::kGivenUp},
      {302, Verdict::kGivenUp},   {400, Verdict::kGivenUp},   {404, Verdict::kGivenUp},
      {408, Verdict::kRetry},     {410, Verdict::kGivenUp},   {429, Verdict::kRetry},
      {500, Verdict::kRetry},     {503, Verdict::kRetry},     {0, Verdict::kRetry},
  };
  for (const auto& [status, verdict] : table) {
    EXPECT_EQ(Judge(webhook, {status, "", false, {}}), verdict) << status;
    EXPECT_EQ(ProblemOf(webhook, {status, "", false, {}}).empty(), verdict == Verdict::kDelivered);
  }
  EXPECT_EQ(Judge(webhook, {0, "connection refused", false, {}}), Verdict::kRetry);
  EXPECT_EQ(Judge(webhook, {0, "10.0.0.1 is an address of a private network", true, {}}), Verdict::kGivenUp);
}

TEST(Judge, OfAMail) {
  const Message mail = To(Channel::kMail);
  EXPECT_EQ(Judge(mail, {250, "", false, {}}), Verdict::kDelivered);
  EXPECT_EQ(Judge(mail, {451, "greylisted", false, {}}), Verdict::kRetry);
  EXPECT_EQ(Judge(mail, {550, "no such mailbox", false, {}}), Verdict::kGivenUp);
  EXPECT_EQ(Judge(mail, {0, "timed out", false, {}}), Verdict::kRetry);
}

constexpr RetrySettings kSettings{base::Millis(1000), base::Millis(60'000), base::Millis(0)};

TEST(Delay, DoublesUpToTheLongestAndIsUpToAFifthShorter) {
  base::Millis whole{1000};
  for (int attempt = 1; attempt < 100; ++attempt) {
    const auto delay = DelayOf(kSettings, attempt, 17, {});
    EXPECT_LE(delay, whole);
    EXPECT_GT(delay, whole - whole / 5 - base::Millis(1));
    whole = std::min(2 * whole, kSettings.longest);
  }
}

TEST(Delay, IsTheSameForOneMessageAndDiffersBetweenThem) {
  std::set<base::Millis> delays;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_EQ(DelayOf(kSettings, 3, seed, {}), DelayOf(kSettings, 3, seed, {}));
    delays.insert(DelayOf(kSettings, 3, seed, {}));
  }
  EXPECT_GT(delays.size(), 50U);
}

TEST(Delay, IsWhatTheReceiverAsksForWithinBounds) {
  EXPECT_EQ(DelayOf(kSettings, 1, 0, base::Millis(30'000)), base::Millis(30'000));
  EXPECT_EQ(DelayOf(kSettings, 1, 0, base::Millis(86'400'000)), kSettings.longest);
  EXPECT_EQ(DelayOf(kSettings, 1, 0, base::Millis(1)), DelayOf(kSettings, 1, 0, {}));
}

}  // namespace
}  // namespace gpuman::notify
