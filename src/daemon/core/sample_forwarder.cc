#include "daemon/core/sample_forwarder.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/config/guard_settings.h"
#include "daemon/core/core.h"
#include "daemon/core/module.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::seconds kReadyAtLast{8};    // loading a driver that sleeps takes some seconds
constexpr std::chrono::minutes kDetailsWanted{2};  // twice the period of a slow scraper

}  // namespace

SampleForwarder::SampleForwarder(Core& core) : core_(core), ready_timer_(core.loop()) {
  gpu::SamplerCallbacks callbacks;
  callbacks.on_inventory = [this](gpu::Inventory inventory) {
    boost::asio::post(core_.loop(), [this, inventory = std::move(inventory)] { OnInventory(inventory); });
  };
  callbacks.on_sample = [this](gpu::GpuSample sample) {
    boost::asio::post(core_.loop(), [this, sample = std::move(sample)] { OnSample(sample); });
  };
  callbacks.on_xid = [this](const gpu::XidEvent& seen) {
    boost::asio::post(core_.loop(), [this, seen] { on_xid(seen); });
  };
  callbacks.on_energy = [this](const gpu::EnergySample& seen) {
    boost::asio::post(core_.loop(), [this, seen] { on_energy(seen); });
  };
  sampler_ = std::make_unique<gpu::Sampler>(SamplerSettingsOf(core.config()), std::move(callbacks));
}

void SampleForwarder::Start() {
  sampler_->Start();
  ready_timer_.expires_after(kReadyAtLast);
  ready_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) BecomeReady();
  });
}

void SampleForwarder::Stop() { sampler_->Stop(); }

void SampleForwarder::OnInventory(const gpu::Inventory& inventory) {
  if (inventory.gpus.empty())
    spdlog::warn("no GPUs: {}", inventory.problem);
  else
    spdlog::info("{} GPUs and MIG instances, driver {}", inventory.gpus.size(), inventory.driver_version);
  whole_gpus_ = gpu::WithoutInstances(inventory);
  core_.guard().SetInventory(inventory);
  for (auto* const module : core_.modules()) module->OnInventory();
  core_.guard_loop().Rearm();
  BecomeReadyIfKnown();
}

void SampleForwarder::OnSample(const gpu::GpuSample& sample) {
  for (auto* const module : core_.modules()) module->BeforeSample(sample);
  core_.guard().OnSample(sample);
  for (auto* const module : core_.modules()) module->OnSample(sample);
  // The sampler reads the GPUs at one moment. AfterSamples looks at all of them once, after the samples that
  // have arrived.
  if (sampled_.empty()) boost::asio::post(core_.loop(), [this] { AfterSamples(); });
  sampled_.insert(sample.uuid);
}

void SampleForwarder::WantDetails() { sampler_->WantDetails(core_.clock().Mono() + kDetailsWanted); }

void SampleForwarder::AfterSamples() {
  core_.guard().Judge();
  const auto sampled = std::exchange(sampled_, {});
  for (auto* const module : core_.modules()) module->AfterSamples(sampled);
  core_.guard_loop().Rearm();
  BecomeReadyIfKnown();
}

bool SampleForwarder::IsAllKnown() const {
  const auto& modules = core_.modules();
  const auto& gpus = core_.inventory().gpus;
  return std::all_of(modules.begin(), modules.end(), [](const auto* module) { return module->IsReady(); }) &&
         std::all_of(gpus.begin(), gpus.end(), [&](const gpu::Gpu& gpu) {
           const auto* status = core_.guard().Find(gpu.uuid);
           return status && status->sample.taken_at != base::MonoTime{};
         });
}

void SampleForwarder::BecomeReadyIfKnown() {
  if (!ready_ && IsAllKnown()) BecomeReady();
}

void SampleForwarder::BecomeReady() {
  if (ready_) return;
  ready_ = true;
  ready_timer_.cancel();
  for (auto* const module : core_.modules()) module->OnReady();
  for (const auto& call : when_ready_.TakeAll()) call.then();
}

void SampleForwarder::WhenReady(WhenReadyCall call) {
  if (ready_) return call.then();
  when_ready_.Add(std::move(call));
}

}  // namespace gpuman::daemon
