// Statistics of the use of the machine, by user, project, name, GPU or day, from the accounts of runs. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/queue_types.h"
#include "base/result.h"
#include "energy/cost.h"
#include "jobs/accounting.h"
#include "jobs/job.h"

namespace gpuman::daemon {

// kName: the names of jobs, and of arrays.
// kDayOfEnd: the day on which a run ended, by UTC.
enum class StatsBy { kUser, kProject, kName, kGpu, kDayOfEnd };
base::Result<StatsBy> ParseStatsBy(std::string_view word);  // user project name gpu day

class Stats {
 public:
  // `user`: of this user's jobs alone.
  explicit Stats(StatsBy by, std::optional<std::string> user = {}, energy::Prices prices = {})
      : by_(by), user_(std::move(user)), prices_(std::move(prices)) {}

  // A run on several GPUs counts for each GPU with an equal part. The caller adds runs in the order in which
  // they ended: a job counts once, by its last run.
  void Add(const jobs::RunAccount& run);
  // A job that has not ended: the outcomes of its runs so far do not count yet. It is in no row by day; jobs
  // without a GPU are in no row by GPU.
  void Add(const jobs::Job& job);
  // Rows by name.
  api::StatsView View() const;

 private:
  struct Sums {
    api::StatsRow row;
    double waited_ms = 0, ran_ms = 0;
    std::vector<base::Bytes> peaks{};
    std::vector<base::Millis> times{};
    std::vector<double> utilizations{};
  };
  // What is known of a job that has run.
  struct Last {
    std::string outcome;            // of its last run
    std::vector<std::string> rows;  // in which this run counts
  };
  std::vector<std::string> RowsOf(const jobs::RunAccount& run) const;
  static void Count(Sums& sums, const jobs::RunAccount& run, double part);
  static void Count(Sums& sums, const jobs::Job& job);
  static void Count(api::StatsRow& row, const std::string& outcome);
  api::StatsRow Finished(Sums sums) const;

  StatsBy by_;
  std::optional<std::string> user_;
  energy::Prices prices_;
  std::map<std::string, Sums> sums_;
  Sums total_;
  std::set<base::JobId> open_;
  std::map<base::JobId, Last> last_;
};

}  // namespace gpuman::daemon
