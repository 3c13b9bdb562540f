// Decides which allocations are traced. Pure.
//
// Samples are the points of a Poisson process over the bytes that a program allocates, one in `mean` bytes:
// an allocation is traced where at least one point lies in it, so with the probability 1 - exp(-bytes /
// mean), whatever was traced before. Whoever divides what was traced by that gets all bytes, on the average,
// also where `mean` changes from one allocation to the next.
#pragma once

#include <cstdint>

namespace gpuman::shim {

inline constexpr std::uint64_t kFirstMean = std::uint64_t{512} << 10;
inline constexpr std::uint64_t kLargestMean = std::uint64_t{1} << 40;

// exp(-x) for x >= 0, to 12 digits; the shim has no mathematical library.
constexpr double ExpOfMinus(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  if (x >= 64) return 0;
  const int halvings = static_cast<int>(x / kLn2);
  const double rest = x - halvings * kLn2;
  double term = 1, sum = 1;
  for (int i = 1; i < 16; ++i) sum += term *= -rest / i;
  for (int i = 0; i < halvings; ++i) sum /= 2;
  return sum;
}

// Makes independent numbers of 0, 1, 2, … (splitmix64).
constexpr std::uint64_t Scramble(std::uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15u;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

// `random`: any of all numbers of 64 bits.
constexpr bool IsDrawn(std::uint64_t bytes, std::uint64_t mean, std::uint64_t random) {
  if (bytes / mean >= 64) return true;
  const double unit = static_cast<double>(random >> 11) * 0x1p-53;  // from 0 to 1, without 1
  return unit >= ExpOfMinus(static_cast<double>(bytes) / static_cast<double>(mean));
}

// Holds the time that tracing takes to a hundredth of all time: samples cost time from an account that fills
// by that part of the time that goes by. Where it is overdrawn, fewer allocations are traced (each with more
// weight), and where it is full again, more. An object of zeros has to Begin.
class TracingBudget {
 public:
  void Begin(std::uint64_t now) {
    mean_ = kFirstMean;
    account_ = kFull;
    filled_ = now;
  }

  std::uint64_t mean() const { return mean_; }

  // A sample took from `began` to `now`, in nanoseconds. `least`: no more than one in so many bytes.
  void Took(std::uint64_t began, std::uint64_t now, std::uint64_t least) {
    if (now > filled_) account_ += static_cast<std::int64_t>((now - filled_) / kPart);
    filled_ = now > filled_ ? now : filled_;
    account_ -= now > began ? static_cast<std::int64_t>(now - began) : 0;
    if (account_ > kFull) account_ = kFull;
    if (account_ < 0) {
      if (mean_ < kLargestMean) mean_ *= 2;
      if (account_ < -kFull) account_ = -kFull;
    } else if (account_ > kFull / 2 && mean_ > least) {
      mean_ /= 2;
    }
    if (mean_ < least) mean_ = least;
  }

 private:
  static constexpr std::uint64_t kPart = 100;
  static constexpr std::int64_t kFull = 100'000'000;

  std::uint64_t mean_;
  std::uint64_t filled_;
  std::int64_t account_;  // nanoseconds
};

// A file that fills has room for what comes later: with each sixteenth of it the mean is twice as large.
constexpr std::uint64_t LeastMean(std::uint64_t written, std::uint64_t room) {
  return kFirstMean << (written >= room ? 15 : written * 16 / room);
}

}  // namespace gpuman::shim
