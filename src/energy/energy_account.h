// The account of one GPU's energy: what each job has used of it, what was idle, and what was others'. The sum
// of the parts is what the GPU's counter says. Pure.
//
// The counter is behind: a real GPU moves it on every 20 to 100 ms. So a reading counts as of the moment at
// which its value was first seen, and a time around a hand-over is split as one, from the last reading before
// it until kLag after it: in proportion to the time that each had in it and the power that each draws alone,
// which is known from readings farther away from hand-overs (job_power_estimator.h). The power of a new
// job is not known. The account keeps that energy apart, for at most kLongestUnsure, and counts it in no sum
// until then.
//
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "energy/gpu_energy_record.h"
#include "energy/job_power_estimator.h"
#include "energy/rest_power.h"
#include "energy/split.h"

namespace gpuman::energy {

// How long after a hand-over a reading may still contain what was used before it.
inline constexpr std::chrono::milliseconds kLag{200};

// How long energy waits for the powers of those that used it.
inline constexpr std::chrono::seconds kLongestUnsure{15};

class EnergyAccount {
 public:
  // Sets the holders of the GPU from now on. `vacant`: no process uses the GPU, so its rest power can be
  // seen.
  void SetHolders(Holders holders, bool vacant, base::MonoTime now);
  // The counter's value at that time. Readings come in the order of their times; an older one is ignored.
  void Read(Millijoules counter, base::MonoTime at);
  // Splits all that was used until now, by an estimate of what the next reading will say: a run ends, and its
  // energy is told now. The next reading corrects an error of the estimate.
  void Reckon(base::MonoTime now);

  // A run of the job begins. `seen`: its beginning is now, so that its energy will be known.
  void Begin(base::JobId job, bool seen);
  // The job is over, or its next run begins.
  void Forget(base::JobId job);
  // Returns the energy of the job's present run; nullopt if it is unknown.
  std::optional<Millijoules> Of(base::JobId job) const;

  // Whether a counter was ever read.
  bool IsCounted() const { return base_.has_value() || counted_ > 0; }
  Millijoules counted() const { return counted_; }
  Millijoules idle() const { return idle_; }
  Millijoules others() const { return others_; }
  Millijoules of_jobs() const { return counted_ - idle_ - others_; }
  std::optional<double> rest_watts() const { return rest_.watts(); }

  // nullopt: no counter was read.
  std::optional<GpuEnergyRecord> ToRecord(const std::string& boot) const;
  // Goes on where the record ends. `runs`: the jobs whose run goes on. Energy that was used while the daemon
  // was away counts for the holders if all of them are in `runs`, otherwise for others: nobody knows when the
  // missing one ended.
  void Restore(const GpuEnergyRecord& record, const std::string& boot, const std::set<base::JobId>& runs);

 private:
  struct State {
    Holders holders;
    bool vacant = false;
    friend bool operator==(const State&, const State&) = default;
  };
  struct Base {
    Millijoules counter = 0;
    base::MonoTime at{};
  };
  struct Sum {
    Millijoules used = 0;
    bool known = false;
  };
  // A stretch between the base and now.
  struct Past {
    State state;
    Time length{};
  };

  // Used by holders of which not each has been seen alone.
  struct Unsplit {
    Millijoules used = 0;
    std::vector<Stretch> stretches;  // each state of the GPU once
    base::MonoTime since{};
  };

  void Pass(base::MonoTime now);
  double PresentWatts() const;
  void Settle(Millijoules counter, base::MonoTime at, bool measured);
  void Learn(Millijoules used, const EnergySplit& parts, const std::vector<Stretch>& stretches,
             base::MonoTime at);
  bool IsUnsure(const std::vector<Stretch>& stretches) const;
  void SetAside(Millijoules used, const std::vector<Stretch>& stretches, base::MonoTime at);
  void SplitUnsplit();
  EnergySplit SplitOf(Millijoules used, const std::vector<Stretch>& stretches) const;
  void Add(Millijoules used, const EnergySplit& parts);
  void BeginAnew(Millijoules counter, base::MonoTime at);

  RestPower rest_;
  JobPowerEstimator powers_;
  State state_;
  base::MonoTime changed_{};  // when state_ began
  base::MonoTime passed_{};   // up to which time `past_` goes
  std::vector<Past> past_;    // each state once: their order does not matter
  std::optional<Base> base_;  // up to where all is split, or in unsplit_
  std::optional<Unsplit> unsplit_;
  std::optional<Millijoules> last_;  // the last value that was read
  base::MonoTime last_at_{};
  double watts_ = 0;  // of the last time that was measured

  Millijoules counted_ = 0, idle_ = 0, others_ = 0, ended_ = 0;
  std::map<base::JobId, Sum> jobs_;
};

}  // namespace gpuman::energy
