// The colours of the screen of `gpuman top`. Values.
#pragma once

#include <array>

#include "cli/top/picture.h"

namespace gpuman::cli::top {

// Some of the eight colours that every terminal with colours has, with their numbers there.
enum class BasicColor : short { kRed = 1, kYellow = 3, kBlue = 4, kMagenta = 5, kCyan = 6 };

struct InkColor {
  Ink ink = Ink::kPlain;
  short of_256 = 0;  // of a terminal that has 256 colours
  BasicColor of_8 = BasicColor::kRed;
};

// Near the palette of Okabe and Ito where 256 colours have it. Inks that mean different things in one place
// can be told apart by people who are blind for red or green; the eight basic colours only differ, and have
// no pair of red and green.
inline constexpr std::array<InkColor, 9> kInkColors{{{Ink::kGood, 36, BasicColor::kCyan},
                                                     {Ink::kWarning, 172, BasicColor::kYellow},
                                                     {Ink::kBad, 167, BasicColor::kRed},
                                                     {Ink::kMemory, 74, BasicColor::kCyan},
                                                     {Ink::kUtilization, 135, BasicColor::kMagenta},
                                                     {Ink::kFirstJob, 74, BasicColor::kCyan},
                                                     {Ink::kSecondJob, 172, BasicColor::kYellow},
                                                     {Ink::kThirdJob, 36, BasicColor::kBlue},
                                                     {Ink::kFourthJob, 135, BasicColor::kMagenta}}};

}  // namespace gpuman::cli::top
