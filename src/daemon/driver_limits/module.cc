#include "daemon/driver_limits/module.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/cgroup.h"
#include "base/file.h"
#include "driver/nvml.h"

namespace gpuman::daemon {
namespace {

std::string CgroupTree() {
  const auto mounts = base::ReadFile("/proc/self/mountinfo");
  const auto mount = mounts ? base::FindCgroup2Mount(*mounts) : std::nullopt;
  return mount ? mount->mount_point.string() : std::string();
}

bool IsThere(const std::string& cgroup) {
  std::error_code error;
  return std::filesystem::exists(cgroup, error);
}

// On a thread of the executor.
driver::NvmlResult<> Set(const driver::Nvml& nvml, const DriverLimitOrder& order) {
  GPUMAN_ASSIGN(auto* const device, nvml.DeviceByUuid(order.gpu));
  const driver::NvmlMemoryLimits wanted{{}, order.limit};
  if (const auto now = nvml.MemoryLimits(device, order.cgroup); now && *now == wanted) return {};
  return nvml.SetMemoryLimits(device, order.cgroup, wanted);
}

}  // namespace

struct DriverLimitsModule::Attempt {
  base::Result<> result;
  bool cgroup_gone = false;  // its limit is gone with it
  bool gpu_has_no_limits = false;
};

DriverLimitsModule::DriverLimitsModule(Core& core)
    : core_(core),
      tree_(CgroupTree()),
      executor_(driver::NvmlExecutor::Order::kAtOnce,
                [&core](std::function<void()> act) { boost::asio::post(core.loop(), std::move(act)); }) {
  if (::geteuid() != 0 || tree_.empty())
    driver_ = DriverSupport::kHasNone;  // it takes no limits of this daemon
}

bool DriverLimitsModule::Stop() { return executor_.Stop(core_.config().sampling.call_limit); }

void DriverLimitsModule::OnInventory() {
  if (driver_ == DriverSupport::kUnknown && !core_.inventory().driver_version.empty()) AskDriver();
  FollowAll();
}

void DriverLimitsModule::AskDriver() {
  driver_ = DriverSupport::kBeingAsked;
  auto answer = std::make_shared<DriverSupport>(DriverSupport::kUnknown);
  executor_.Run(
      [answer](const driver::LoadedNvml& nvml) {
        if (nvml) *answer = (*nvml)->HasMemoryLimits() ? DriverSupport::kHasLimits : DriverSupport::kHasNone;
      },
      [this, answer] {
        driver_ = *answer;
        FollowAll();
      });
}

void DriverLimitsModule::FollowAll() {
  for (const auto* const job : core_.jobs().Active())
    if (!jobs::IsWaiting(*job) && job->keeper) Follow(*job);
}

void DriverLimitsModule::Follow(const jobs::Job& job) {
  if (driver_ != DriverSupport::kHasLimits) return;
  std::map<std::string, base::Bytes> limits;
  if (core_.config().limits.driver) limits = DriverLimitsOf(job, core_.inventory(), tree_);
  for (const auto& gpu : without_) limits.erase(gpu);
  for (const auto& order : limits_.Want(job.id, job.cgroup, limits)) CarryOut(order);
}

void DriverLimitsModule::OnJobLeft(base::JobId job, UnwatchReason /*why*/) {
  told_.erase(job);
  for (const auto& order : limits_.Want(job, {}, {})) CarryOut(order);
}

void DriverLimitsModule::CarryOut(const DriverLimitOrder& order) {
  auto attempt = std::make_shared<Attempt>();
  executor_.Run(
      [order, attempt](const driver::LoadedNvml& nvml) {
        if (!nvml) {
          attempt->result = base::Fail(nvml.error());
          return;
        }
        const auto set = Set(**nvml, order);
        if (set) return;
        attempt->cgroup_gone = !IsThere(order.cgroup);
        attempt->gpu_has_no_limits = set.error().failure == driver::NvmlFailure::kNotSupported;
        attempt->result = base::Fail(set.error());
      },
      [this, order, attempt] { OnAttempt(order, *attempt); });
}

void DriverLimitsModule::OnAttempt(const DriverLimitOrder& order, const Attempt& attempt) {
  if (attempt.gpu_has_no_limits && without_.insert(order.gpu).second)
    spdlog::info("NVIDIA's driver holds no limits of memory on {}: {}", order.gpu,
                 attempt.result.error().message);
  if (!attempt.result && !attempt.cgroup_gone && !attempt.gpu_has_no_limits)
    TellRefused(order, attempt.result.error().message);
  const auto next =
      limits_.Finish(order, attempt.result ? DriverLimitOutcome::kDone : DriverLimitOutcome::kRefused);
  if (next) CarryOut(*next);
  if (attempt.gpu_has_no_limits) FollowAll();  // it is not asked for on this GPU
}

void DriverLimitsModule::TellRefused(const DriverLimitOrder& order, const std::string& why) {
  const auto* const job = core_.jobs().Find(order.job);
  if (!order.limit || !job || !limits_.Holds(order.job)) {
    if (!order.limit)
      spdlog::warn("NVIDIA's driver keeps the limit of memory of cgroup {} on {}: {}", order.cgroup,
                   order.gpu, why);
    return;
  }
  if (!told_.insert(order.job).second) return;
  const auto* const gpu = gpu::FindGpu(core_.inventory(), order.gpu);
  core_.AddJobEvent(
      *job, {"driver_limit_failed",
             fmt::format("NVIDIA's driver does not hold the limit of {} of job {} '{}' on GPU {}: {}; {}",
                         base::FormatBytes(*order.limit), job->id.value, job->tag,
                         gpu ? gpu::NumberOf(*gpu) : order.gpu, why,
                         job->spec->preload ? "libgpuman.so and the guard hold it as ever"
                                            : "the guard holds it as ever"),
             {{"limit", static_cast<std::int64_t>(order.limit->count)}}});
}

void DriverLimitsModule::Show(const jobs::Job& job, api::JobView& view) const {
  view.memory.held_by_driver = limits_.Holds(job.id);
}

}  // namespace gpuman::daemon
