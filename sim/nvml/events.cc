// Event sets: waits block until something is injected, or the time is up.
#include <mutex>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

struct nvmlEventSet_st {
  std::mutex mutex;  // guards both; not held while waiting
  EventFilter filter;
  std::uint64_t next = 0;
};

namespace {

std::uint64_t SupportedTypes(const Gpu& gpu) {
  constexpr std::uint64_t kOfAnH200 = 0xff9f;  // on 580
  const std::uint64_t plain = nvmlEventTypeXidCriticalError | nvmlEventTypePState | nvmlEventTypeClock;
  return gpu.Has(kFeatureEcc) ? kOfAnH200 : plain;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  return OnSystem(__func__, [&](Session& session) {
    if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *set = new nvmlEventSet_st;
    (*set)->next = session.shared().event_next.load();
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  return OnSystem(__func__, [&](Session&) {
    if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    delete set;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(types, SupportedTypes(gpu)); });
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if ((types & ~SupportedTypes(gpu)) != 0) return NVML_ERROR_NOT_SUPPORTED;
    const std::lock_guard lock(set->mutex);
    set->filter.types[gpu.index] |= types;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeout_ms) {
  return OnSystem(__func__, [&](Session& session) {
    if (AnyNull(set, data)) return NVML_ERROR_INVALID_ARGUMENT;
    EventFilter filter;
    std::uint64_t next = 0;
    {
      const std::lock_guard lock(set->mutex);
      filter = set->filter;
      next = set->next;
    }
    const auto event = WaitEvent(session.shared(), filter, next, timeout_ms);
    const std::lock_guard lock(set->mutex);
    set->next = next;
    if (!event) return NVML_ERROR_TIMEOUT;
    *data = {session.HandleOf(event->gpu), event->type, event->data, kNoInstance, kNoInstance};
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeout_ms) {
  return nvmlEventSetWait_v2(set, data, timeout_ms);
}

}  // extern "C"
}  // namespace gpuman::driver::abi
