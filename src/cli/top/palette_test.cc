#include "cli/top/palette.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gpuman::cli::top {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

// Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency"
// (2009), severity 1.0: matrices for linear light.
constexpr Matrix kEverybody{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix kProtanopia{
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranopia{
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
const std::map<std::string, Matrix> kEyes{
    {"everybody", kEverybody}, {"protanopia", kProtanopia}, {"deuteranopia", kDeuteranopia}};

Vector Times(const Matrix& matrix, const Vector& vector) {
  Vector product{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) product[i] += matrix[i][j] * vector[j];
  return product;
}

// Linear light of one of the 216 colours from 16 on, as xterm has them.
Vector LightOf(short color) {
  constexpr std::array<double, 6> kLevels{0, 95, 135, 175, 215, 255};
  const auto cube = static_cast<std::size_t>(color - 16);
  Vector light{kLevels.at(cube / 36), kLevels.at(cube / 6 % 6), kLevels.at(cube % 6)};
  for (double& part : light) {
    part /= 255;
    part = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  }
  return light;
}

// CIE 1976 L*a*b*, for white of D65.
Vector LabOf(const Vector& light) {
  constexpr Matrix kXyz{{{0.4124564, 0.3575761, 0.1804375},
                         {0.2126729, 0.7151522, 0.0721750},
                         {0.0193339, 0.1191920, 0.9503041}}};
  constexpr Vector kWhite{0.95047, 1, 1.08883};
  Vector f = Times(kXyz, light);
  for (std::size_t i = 0; i < 3; ++i) {
    constexpr double kEdge = 6.0 / 29;
    const double part = f[i] / kWhite[i];
    f[i] = part > kEdge * kEdge * kEdge ? std::cbrt(part) : part / (3 * kEdge * kEdge) + 4.0 / 29;
  }
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

double Distance(short one, short other, const Matrix& seen) {
  const auto lab = [&](short color) {
    Vector light = Times(seen, LightOf(color));
    for (double& part : light) part = std::clamp(part, 0.0, 1.0);
    return LabOf(light);
  };
  const Vector a = lab(one), b = lab(other);
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

const InkColor& ColorOf(Ink ink) {
  return *std::find_if(kInkColors.begin(), kInkColors.end(), [&](const InkColor& c) { return c.ink == ink; });
}

// Inks that mean different things in one place.
const std::vector<std::vector<Ink>> kBesideEachOther{
    {Ink::kGood, Ink::kWarning, Ink::kBad},
    {Ink::kMemory, Ink::kUtilization},
    {Ink::kFirstJob, Ink::kSecondJob, Ink::kThirdJob, Ink::kFourthJob}};

TEST(Palette, CanBeToldApartByPeopleWhoAreBlindForRedOrGreen) {
  constexpr double kApart = 15;  // CIE 1976; 2.3 can be just noticed side by side
  for (const auto& inks : kBesideEachOther)
    for (std::size_t i = 0; i < inks.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        for (const auto& [eyes, seen] : kEyes) {
          const short one = ColorOf(inks[i]).of_256, other = ColorOf(inks[j]).of_256;
          EXPECT_GE(Distance(one, other, seen), kApart) << one << " and " << other << ", " << eyes;
        }
}

TEST(Palette, DiffersOnATerminalOfEightColors) {
  for (const auto& inks : kBesideEachOther) {
    std::set<BasicColor> colors;
    for (const Ink ink : inks) colors.insert(ColorOf(ink).of_8);
    EXPECT_EQ(colors.size(), inks.size());
  }
}

TEST(Palette, TheMeasureKnowsRedAndGreen) {
  constexpr short kGreen = 70, kRed = 166;  // #5faf00, #d75f00
  EXPECT_GT(Distance(kGreen, kRed, kEverybody), 60);
  EXPECT_LT(Distance(kGreen, kRed, kDeuteranopia), 10);
  EXPECT_DOUBLE_EQ(Distance(kRed, kRed, kProtanopia), 0);
}

}  // namespace
}  // namespace gpuman::cli::top
