#include "notify/retry.h"

#include <gtest/gtest.h>

#include <set>

namespace gpuman::notify {
namespace {

OutboxMessage To(ChannelKind channel) {
  OutboxMessage message;
  message.channel = channel;
  return message;
}

TEST(NotificationRetry, WebhookStatusDecidesOnRetry) {
  const OutboxMessage webhook = To(ChannelKind::kWebhook);
  const std::pair<int, DeliveryOutcome> table[] = {
      {200, DeliveryOutcome::kDelivered}, {204, DeliveryOutcome::kDelivered},
      {301, DeliveryOutcome::kGivenUp},   {302, DeliveryOutcome::kGivenUp},
      {400, DeliveryOutcome::kGivenUp},   {404, DeliveryOutcome::kGivenUp},
      {408, DeliveryOutcome::kRetry},     {410, DeliveryOutcome::kGivenUp},
      {429, DeliveryOutcome::kRetry},     {500, DeliveryOutcome::kRetry},
      {503, DeliveryOutcome::kRetry},     {0, DeliveryOutcome::kRetry},
  };
  for (const auto& [status, outcome] : table) {
    EXPECT_EQ(Judge(webhook, {status, "", false, {}}), outcome) << status;
    EXPECT_EQ(ProblemOf(webhook, {status, "", false, {}}).empty(), outcome == DeliveryOutcome::kDelivered);
  }
  EXPECT_EQ(Judge(webhook, {0, "connection refused", false, {}}), DeliveryOutcome::kRetry);
  EXPECT_EQ(Judge(webhook, {0, "10.0.0.1 is an address of a private network", true, {}}),
            DeliveryOutcome::kGivenUp);
}

TEST(NotificationRetry, AMailIsTriedAgainAfterAPassingErrorAlone) {
  const OutboxMessage mail = To(ChannelKind::kMail);
  EXPECT_EQ(Judge(mail, {250, "", false, {}}), DeliveryOutcome::kDelivered);
  EXPECT_EQ(Judge(mail, {451, "greylisted", false, {}}), DeliveryOutcome::kRetry);
  EXPECT_EQ(Judge(mail, {550, "no such mailbox", false, {}}), DeliveryOutcome::kGivenUp);
  EXPECT_EQ(Judge(mail, {0, "timed out", false, {}}), DeliveryOutcome::kRetry);
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
