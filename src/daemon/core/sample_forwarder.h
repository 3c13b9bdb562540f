// Brings the samples of the sampler's threads to the event loop: first to the guard, then to the modules.
// Knows which GPUs there are, and whether each was sampled.
//
// Lives on the event loop; not thread-safe. The sampler's threads only post.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/waiting_requests.h"
#include "daemon/core/signal.h"
#include "gpu/sampler.h"

namespace gpuman::daemon {

class Core;

class SampleForwarder {
 public:
  // `core` must outlive this object.
  explicit SampleForwarder(Core& core);
  SampleForwarder(const SampleForwarder&) = delete;
  SampleForwarder& operator=(const SampleForwarder&) = delete;

  void Start();
  void Stop();

  gpu::Sampler& sampler() { return *sampler_; }
  const gpu::Sampler& sampler() const { return *sampler_; }
  // What is read of GPUs only while somebody wants to see it (gpu/details.h) is read for the next minutes.
  void WantDetails();
  // The inventory without instances: only devices that have settings, health and hardware of their own.
  const gpu::Inventory& whole_gpus() const { return whole_gpus_; }
  // The driver has reported an error of a GPU.
  Signal<const gpu::XidEvent&> on_xid;
  // A GPU's energy counter has moved on, while it is watched (gpu::Sampler::WatchEnergy).
  Signal<const gpu::EnergySample&> on_energy;

  // The GPUs are known and each was sampled, or some seconds have passed.
  bool is_ready() const { return ready_; }
  // Calls `then` once is_ready() is true, so that a daemon that was started a moment ago does not say that
  // there are no GPUs.
  struct WhenReadyCall {
    std::function<void()> then;
    std::function<bool()> is_cancelled{};  // as base::WaitingRequests has it
  };
  void WhenReady(WhenReadyCall call);
  // A module calls this when its Module::IsReady may have become true.
  void BecomeReadyIfKnown();

 private:
  void OnInventory(const gpu::Inventory& inventory);
  void OnSample(const gpu::GpuSample& sample);
  void AfterSamples();
  void BecomeReady();
  bool IsAllKnown() const;

  Core& core_;
  std::unique_ptr<gpu::Sampler> sampler_;
  gpu::Inventory whole_gpus_;
  std::set<std::string> sampled_;  // GPUs whose samples AfterSamples has not seen
  boost::asio::steady_timer ready_timer_;
  bool ready_ = false;
  base::WaitingRequests<WhenReadyCall> when_ready_;
};

}  // namespace gpuman::daemon
