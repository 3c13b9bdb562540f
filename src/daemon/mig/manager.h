// Knows how the GPUs are split and how they are to be split: asks the driver on a separate thread, keeps the
// wanted divisions on the disk, and makes them again after a reset, a reboot or a reload of the driver has
// removed them.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/request_batcher.h"
#include "daemon/mig/orders.h"
#include "driver/nvml_executor.h"
#include "jobs/store.h"

namespace gpuman::daemon {

class Core;

class MigManager {
 public:
  // `core` must outlive this object. `on_split` is called when it becomes known which GPUs are in MIG mode,
  // and when it may have changed. `own`: the pids of gpuman's own processes.
  MigManager(Core& core, std::function<std::set<pid_t>()> own, std::function<void()> on_split);

  // Takes over the records that an earlier daemon kept. Call once, before anything else.
  void Recall(const jobs::SettingRows& settings);
  // The time between two checks of the GPUs.
  void SetPeriod(base::Millis period);
  void OnInventory() { Check(); }
  // False: a thread is still in the driver.
  bool Stop() { return executor_.Stop(base::Millis(2000)); }
  bool has_looked() const { return has_looked_; }

  // Read and Plan change nothing. All that ask while the driver is asked share the next look at it, so that
  // changes wait for few looks, however many ask. `is_cancelled`: as base::WaitingRequests has it.
  using IsCancelled = std::function<bool()>;
  void Read(std::vector<gpu::Gpu> gpus, std::function<void(const std::vector<MigReading>&)> then,
            IsCancelled is_cancelled);
  using Answer = std::function<void(base::Result<std::vector<MigOutcome>>)>;
  void Plan(std::vector<MigOrder> orders, Answer then, IsCancelled is_cancelled);
  // Answers when the orders are carried out and the wanted divisions are on the disk. `forget`: no division
  // is kept there. The devices of `holders` are not touched.
  void Apply(std::vector<MigOrder> orders, MigHolders holders, bool forget, Answer then);

  // nullptr: nobody has asked for a division.
  const mig::WantedLayout* WantedOf(const std::string& uuid) const;

 private:
  struct Question {
    std::function<void(MigLook&)> ask;  // on the driver's thread
    std::function<void()> then;         // on the loop
    IsCancelled is_cancelled;
  };
  void Ask(std::vector<Question> questions, std::function<void()> done);
  void Check();
  void Wait();
  void OnChecked(const MigRestoreResult& check);
  void OnRestored(const std::vector<MigOutcome>& outcomes);
  void Keep(std::vector<MigOutcome> outcomes, bool forget, Answer then);
  // kind: mig_changed, mig_needs_reset, mig_restored, mig_waits, mig_failed.
  void Tell(const gpu::Gpu& gpu, const char* kind, const std::string& text);

  Core& core_;
  const std::function<std::set<pid_t>()> own_;
  const std::function<void()> on_split_;
  driver::NvmlExecutor executor_;
  base::RequestBatcher<Question> questions_;
  boost::asio::steady_timer timer_;
  base::Millis period_{30'000};
  bool checking_ = false;
  unsigned applying_ = 0;  // orders in progress; a check meanwhile would make again what they remove
  bool has_looked_ = false;
  std::map<std::string, bool> split_;                // by UUID
  std::map<std::string, mig::WantedLayout> wanted_;  // by UUID
  std::map<std::string, std::string> reported_;      // texts of orders that wait or fail; each is told once
};

}  // namespace gpuman::daemon
