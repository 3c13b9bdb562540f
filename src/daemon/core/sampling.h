// Takes what the sampler's threads read to the event loop: first to the guard, then to the modules. Knows
// which GPUs there are, and when each was looked at.
//
// Lives on the event loop; not thread-safe. The sampler's threads only post.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/signal.h"
#include "gpu/sampler.h"

namespace gpuman::daemon {

class Core;

class Sampling {
 public:
  // `core` must outlive this object.
  explicit Sampling(Core& core);
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  void Start();
  void Stop();

  gpu::Sampler& sampler() { return *sampler_; }
  const gpu::Sampler& sampler() const { return *sampler_; }
  // Without instances: what has settings, health and hardware of its own.
  const gpu::Inventory& whole_gpus() const { return whole_gpus_; }
  // An error of a GPU that the driver has told.
  Signal<const gpu::XidSeen&> on_xid;

  // The GPUs are known and each was looked at, or that took some seconds.
  bool is_ready() const { return ready_; }
  // Calls `then` once that is so: a daemon that was started a moment ago does not deny that there are GPUs.
  void WhenReady(std::function<void()> then);
  // A module may know what it did not (Module::IsReady).
  void BecomeReadyIfKnown();

 private:
  void OnInventory(const gpu::Inventory& inventory);
  void OnSample(const gpu::Sample& sample);
  void AfterSamples();
  void BecomeReady();
  bool IsAllKnown() const;

  Core& core_;
  std::unique_ptr<gpu::Sampler> sampler_;
  gpu::Inventory whole_gpus_;
  std::set<std::string> sampled_;  // GPUs whose samples AfterSamples has not seen
  boost::asio::steady_timer ready_timer_;
  bool ready_ = false;
  std::vector<std::function<void()>> when_ready_;
};

}  // namespace gpuman::daemon
