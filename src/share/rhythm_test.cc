#include "share/rhythm.h"

#include <gtest/gtest.h>

namespace gpuman::share {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

TEST(ShareRhythm, RhythmWithoutPauseIsUnknown) {
  const Rhythm rhythm;
  EXPECT_FALSE(rhythm.KnowsBursts());
  EXPECT_FALSE(rhythm.KnowsGaps());
  EXPECT_FALSE(rhythm.BurstLeft(0s));
  EXPECT_FALSE(rhythm.GapLeft(0s));
  EXPECT_FALSE(rhythm.NextGapEnd(0s));
}

TEST(ShareRhythm, AForecastIsTheMeanOfWhatRemainedInThoseThatLastedLonger) {
  Rhythm rhythm;
  for (const Span gap : {Span(1s), Span(2s), Span(6s)}) rhythm.AddGap(gap);
  EXPECT_EQ(rhythm.GapLeft(0s), Span(3s));
  EXPECT_EQ(rhythm.GapLeft(1s), Span(3s)) << "of 2 s and 6 s";
  EXPECT_EQ(rhythm.GapLeft(5s), Span(1s));
  EXPECT_FALSE(rhythm.GapLeft(6s)) << "longer than any before";
  EXPECT_FALSE(rhythm.KnowsBursts());
}

TEST(ShareRhythm, TheForecastChangesWhereTheNextShorterGapWouldHaveEnded) {
  Rhythm rhythm;
  for (const Span gap : {Span(6s), Span(1s), Span(2s)}) rhythm.AddGap(gap);
  EXPECT_EQ(rhythm.NextGapEnd(0s), Span(1s));
  EXPECT_EQ(rhythm.NextGapEnd(1s), Span(2s));
  EXPECT_FALSE(rhythm.NextGapEnd(6s));
}

TEST(ShareRhythm, OldBurstsAreForgotten) {
  Rhythm rhythm;
  rhythm.AddBurst(1h);
  for (int i = 0; i < 8; ++i) rhythm.AddBurst(2s);
  EXPECT_EQ(rhythm.BurstLeft(0s), Span(2s));
}

TEST(ShareRhythm, ATimeBelowZeroIsNone) {
  Rhythm rhythm;
  rhythm.AddGap(-1s);
  EXPECT_TRUE(rhythm.KnowsGaps());
  EXPECT_FALSE(rhythm.GapLeft(0s));
}

}  // namespace
}  // namespace gpuman::share
