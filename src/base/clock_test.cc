#include "base/clock.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(Iso8601, APrintedTimeReadsBack) {
  const auto now = SystemClock().Wall();
  EXPECT_EQ(ParseIso8601(FormatIso8601(now)), now);
  EXPECT_EQ(FormatIso8601(WallTime(std::chrono::milliseconds(1234))), "1970-01-01T00:00:01.234Z");
}

TEST(Iso8601, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "yesterday", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z"})
    EXPECT_FALSE(ParseIso8601(text)) << text;
}

}  // namespace
}  // namespace gpuman::base
