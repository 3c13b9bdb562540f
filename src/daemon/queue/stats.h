// What users, projects or GPUs had of the machine, from the accounts of runs. Pure.
#pragma once

#include <map>
#include <string>

#include "api/queue_types.h"
#include "base/result.h"
#include "jobs/accounting.h"
#include "jobs/job.h"

namespace gpuman::daemon {

enum class StatsBy { kUser, kProject, kGpu };
base::Result<StatsBy> ParseStatsBy(std::string_view word);  // user project gpu

class Stats {
 public:
  explicit Stats(StatsBy by) : by_(by) {}

  // A run of several GPUs counts for each of them with its part.
  void Add(const jobs::RunAccount& run);
  // One that has not ended. Jobs without a GPU are in no row by GPU.
  void Add(const jobs::Job& job);
  // Rows by name.
  api::StatsView View() const;

 private:
  struct Sums {
    api::StatsRow row;
    double waited_ms = 0, ran_ms = 0;
  };
  static void Count(Sums& sums, const jobs::RunAccount& run, double part);
  static void Count(Sums& sums, const jobs::Job& job);
  static api::StatsRow Finished(const Sums& sums);

  StatsBy by_;
  std::map<std::string, Sums> sums_;
  Sums total_;
};

}  // namespace gpuman::daemon
