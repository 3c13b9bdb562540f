#include "daemon/core/event_log.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

jobs::Event EventAt(std::int64_t second) {
  jobs::Event event;
  event.kind = "test";
  event.at = base::WallTime(std::chrono::seconds(second));
  return event;
}

// The ids of the newest `limit` events after `since`.
std::vector<std::int64_t> Since(const EventLog& log, std::int64_t since, std::size_t limit) {
  std::vector<std::int64_t> ids;
  for (const auto* event = log.After(log.Before(since, limit)); event; event = log.After(event->id))
    ids.push_back(event->id);
  return ids;
}

TEST(EventLog, NumbersGoOnFromTheStoreAndAreNeverReused) {
  std::vector<std::int64_t> written;
  EventLog log({}, {}, 41, [&](const jobs::Event& event, auto) { written.push_back(event.id); });
  log.Add(EventAt(1));
  log.Add(EventAt(2));
  EXPECT_EQ(written, (std::vector<std::int64_t>{42, 43}));
  EXPECT_EQ(Since(log, 42, 10), (std::vector<std::int64_t>{43}));
  EXPECT_TRUE(Since(log, 43, 10).empty());
}

TEST(EventLog, GivesTheNewestWhenThereAreMoreThanAsked) {
  EventLog log({.in_memory = 100}, {}, 0, [](const auto&, auto) {});
  for (int i = 0; i < 150; ++i) log.Add(EventAt(i));
  EXPECT_EQ(Since(log, 0, 3), (std::vector<std::int64_t>{148, 149, 150}));
  EXPECT_EQ(Since(log, 0, 1000).size(), 100u) << "what memory holds";
}

TEST(EventLog, CountsOnlyWhatIsWanted) {
  EventLog log({}, {}, 0, [](const auto&, auto) {});
  for (int i = 0; i < 10; ++i) log.Add(EventAt(i));
  const auto even = [](const jobs::Event& event) { return event.id % 2 == 0; };
  EXPECT_EQ(log.Before(0, 2, even), 7) << "before 8 and 10";
  EXPECT_EQ(log.Before(6, 5, even), 6) << "fewer are there";
  EXPECT_EQ(log.Before(0, 0, even), 10);
}

TEST(EventLog, FindsWhereATimeBegins) {
  EventLog log({}, {}, 0, [](const auto&, auto) {});
  for (const int second : {10, 20, 5, 30, 30}) log.Add(EventAt(second));
  const auto at = [](int second) { return base::WallTime(std::chrono::seconds(second)); };
  EXPECT_EQ(log.LastOlderThan(at(31)), 5);
  EXPECT_EQ(log.LastOlderThan(at(30)), 3);
  EXPECT_EQ(log.LastOlderThan(at(6)), 3) << "the clock was set back: nothing that came later is left out";
  EXPECT_EQ(log.LastOlderThan(at(1)), 0);
}

TEST(EventLog, FollowersSeeEveryEventUntilTheyLeave) {
  EventLog log({}, {}, 0, [](const auto&, auto) {});
  int seen = 0;
  std::uint64_t number = 0;
  number = log.Follow([&](const jobs::Event&) {
    if (++seen == 2) log.Unfollow(number);
  });
  for (int i = 0; i < 5; ++i) log.Add(EventAt(i));
  EXPECT_EQ(seen, 2);
}

TEST(EventLog, TakesHowMuchIsKeptAnew) {
  std::optional<std::int64_t> first;
  EventLog log({}, {}, 0, [&](const auto&, auto kept) { first = kept ? kept : first; });
  for (int i = 0; i < 2000; ++i) log.Add(EventAt(i));
  EXPECT_FALSE(first);
  log.SetSettings({.keep_count = 100});
  log.Add(EventAt(2000));
  EXPECT_EQ(first, 1902);
}

TEST(EventLog, OldEventsAreLetGoByCountAndByAge) {
  std::optional<std::int64_t> first_kept;
  EventLog by_count({.in_memory = 10, .keep_count = 1000}, {}, 0, [&](const auto&, auto kept) {
    if (kept) first_kept = kept;
  });
  for (int i = 0; i < 3000; ++i) by_count.Add(EventAt(i));
  ASSERT_TRUE(first_kept);
  EXPECT_GE(*first_kept, 3000 - 1000 - 500);
  EXPECT_LE(*first_kept, 3000 - 1000 + 1);

  first_kept.reset();
  EventLog by_age({.keep = std::chrono::hours(1)}, {}, 0, [&](const auto&, auto kept) {
    if (kept) first_kept = kept;
  });
  for (int i = 0; i < 600; ++i) by_age.Add(EventAt(i));
  EXPECT_FALSE(first_kept);
  by_age.Add(EventAt(100'000));
  EXPECT_EQ(first_kept, 601);
}

}  // namespace
}  // namespace gpuman::daemon
