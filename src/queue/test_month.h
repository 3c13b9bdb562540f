// A made-up month of a shared lab: the jobs that its people submit. For tests and the tables of
// docs/scheduler.md, which describes it.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "queue/test_simulator.h"

namespace gpuman::queue {

inline constexpr std::size_t kMonthGpus = 8;
inline constexpr int kMonthDays = 30;

// The jobs are the same for the same seed on every machine: this class does not use the distributions of the
// standard library, which may differ.
class Month {
 public:
  explicit Month(std::uint64_t seed) : random_(seed) {}

  // `sessions` occasions on which a user submits one job or a sweep of many.
  std::vector<SimulatedJob> Make(int sessions) {
    for (int i = 0; i < sessions; ++i) {
      const std::string user = "user" + std::to_string(User());
      const WallTime submit = Submission();
      const double kind = Uniform();
      if (kind < 0.40)
        Add(user, submit, Lab::Gpus(1), Between(2, 25));  // a try
      else if (kind < 0.62)
        Add(user, submit, Lab::Part(static_cast<std::uint64_t>(Even(8, 32))), Skewed(20, 300));
      else if (kind < 0.84)
        Add(user, submit, Lab::Gpus(1), Skewed(60, 720));
      else if (kind < 0.93)
        Add(user, submit, Lab::Gpus(Uniform() < 0.6 ? 2 : 4), Skewed(60, 900));
      else if (kind < 0.96)
        Add(user, submit, Lab::Gpus(static_cast<int>(kMonthGpus)), Skewed(30, 240));
      else
        Sweep(user, submit);
    }
    return std::move(jobs_);
  }

 private:
  static constexpr int kUsers = 14;

  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double Even(double least, double most) { return least + (most - least) * Uniform(); }
  Millis Between(double least, double most) {
    return Millis(static_cast<std::int64_t>(Even(least, most) * 60'000));
  }
  // Many short times, few long ones: the logarithm is uniform. In minutes.
  Millis Skewed(double least, double most) {
    return Millis(static_cast<std::int64_t>(least * std::pow(most / least, Uniform()) * 60'000));
  }
  // The second user submits half as often as the first, the third a third as often.
  int User() {
    double sum = 0;
    for (int i = 0; i < kUsers; ++i) sum += 1.0 / (i + 1);
    double at = Uniform() * sum;
    int user = 0;
    while (user < kUsers - 1 && (at -= 1.0 / (user + 1)) > 0) ++user;
    return user;
  }
  // Three of four submissions come by day, from 9 to 19 h; a third as many on Saturdays and Sundays. The
  // month begins on a Monday.
  WallTime Submission() {
    int day = 0;
    do day = static_cast<int>(Uniform() * kMonthDays);
    while (day % 7 >= 5 && Uniform() > 0.33);
    const double hour = Uniform() < 0.75 ? 9 + 10 * Uniform() : 24 * Uniform();
    return kStart + std::chrono::hours(24 * day) + Millis(static_cast<std::int64_t>(hour * 3'600'000));
  }
  // People ask for more time than they need, in half hours; one in twenty names no time.
  void Add(const std::string& user, WallTime submit, Request request, Millis run) {
    if (Uniform() >= 0.05) {
      const auto half_hours = static_cast<double>(run.count()) * (1.1 + 1.9 * Uniform()) / 1'800'000;
      request.time_limit = std::chrono::minutes(30) * static_cast<std::int64_t>(std::ceil(half_hours));
    }
    const double urgency = Uniform();
    request.priority = urgency < 0.05 ? 148 : urgency < 0.15 ? 138 : kUsualPriority;
    jobs_.push_back({.request = request, .user = user, .submit = submit, .run = run});
  }
  void Sweep(const std::string& user, WallTime submit) {
    const int tasks = 10 + static_cast<int>(Uniform() * 30);
    Request request = Lab::Gpus(1);
    request.preemptible = Uniform() < 0.25;
    for (int i = 0; i < tasks; ++i) Add(user, submit, request, Between(20, 100));
  }

  std::mt19937_64 random_;
  std::vector<SimulatedJob> jobs_{};
};

}  // namespace gpuman::queue
