// GPU instances and compute instances: possible places, existing instances, and their creation and
// destruction. All of it requires root, as with the real driver.
#include <unistd.h>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

// NVML_COMPUTE_INSTANCE_PROFILE_… of instances with this many slices; the ids have the same numbers.
std::optional<unsigned> ComputeProfileOf(unsigned slices) {
  switch (slices) {
    case 1:
      return NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE;
    case 2:
      return NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE;
    case 3:
      return NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE;
    case 4:
      return NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE;
    case 7:
      return NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE;
    default:
      return std::nullopt;
  }
}

// nullopt: a GPU instance of `all` slices does not have this profile.
std::optional<unsigned> SlicesOf(unsigned compute_profile, unsigned all) {
  for (unsigned slices = 1; slices <= all; ++slices)
    if (ComputeProfileOf(slices) == compute_profile && (MigComputeSizes(all) >> slices & 1) != 0)
      return slices;
  return std::nullopt;
}

nvmlReturn_t StatusOf(MigOutcome outcome) {
  switch (outcome) {
    case MigOutcome::kDone:
      return NVML_SUCCESS;
    case MigOutcome::kNoRoom:
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    case MigOutcome::kInUse:
      return NVML_ERROR_IN_USE;
    case MigOutcome::kGone:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
  return NVML_ERROR_UNKNOWN;
}

// Runs `body(gpu, row)` for the profile with this id, if the GPU supports MIG.
template <typename Body>
nvmlReturn_t OnProfile(const char* function, nvmlDevice_t device, unsigned id, bool needs_mode, Body body) {
  return ChangeDevice(function, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureMig) || (needs_mode && gpu.now.mig_current.load() == 0))
      return NVML_ERROR_NOT_SUPPORTED;
    const auto rows = MigProfilesOf(gpu.shared, gpu.index);
    for (unsigned row = 0; row < rows.size(); ++row)
      if (rows[row].id == id) return body(gpu, row);
    return NVML_ERROR_INVALID_ARGUMENT;
  });
}

template <typename Handle, typename Find, typename Body>
nvmlReturn_t OnInstance(const char* function, Handle handle, Find find, Body body) {
  return OnSystem(function, [&](Session& session) {
    const auto found = (session.*find)(handle);
    if (!found) return NVML_ERROR_INVALID_ARGUMENT;
    return body(session, *found);
  });
}

template <typename Body>
nvmlReturn_t OnGpuInstance(const char* function, nvmlGpuInstance_t handle, Body body) {
  return OnInstance(function, handle, &Session::InstanceOf,
                    [&](Session& session, const MigInstance& instance) {
                      if (session.shared().gpu[instance.gpu].lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
                      return body(session, instance);
                    });
}

nvmlReturn_t Create(const Gpu& gpu, unsigned row, std::optional<unsigned> start,
                    nvmlGpuInstance_t* instance) {
  MigInstance made;
  const auto status = StatusOf(CreateMigInstance(gpu.shared, gpu.index, row, start, made));
  return status == NVML_SUCCESS ? Give(instance, Session::Current()->HandleOf(made)) : status;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                           nvmlGpuInstancePlacement_t* placements,
                                                           unsigned* count) {
  return OnProfile(__func__, device, id, false, [&](const Gpu& gpu, unsigned row) {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const MigProfile& profile = MigProfilesOf(gpu.shared, gpu.index)[row];
    unsigned written = 0;
    for (unsigned start = 0; start < 32; ++start) {
      if ((profile.starts >> start & 1) == 0) continue;
      if (placements != nullptr) placements[written] = {start, profile.size};
      ++written;
    }
    return Give(count, written);
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned id, unsigned* count) {
  return OnProfile(__func__, device, id, true, [&](const Gpu& gpu, unsigned row) {
    return Give(count, MigRemaining(gpu.shared, gpu.index, row));
  });
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t* instance) {
  return OnProfile(__func__, device, id, true, [&](const Gpu& gpu, unsigned row) {
    return instance == nullptr ? NVML_ERROR_INVALID_ARGUMENT : Create(gpu, row, std::nullopt, instance);
  });
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned id,
                                                      const nvmlGpuInstancePlacement_t* placement,
                                                      nvmlGpuInstance_t* instance) {
  return OnProfile(__func__, device, id, true, [&](const Gpu& gpu, unsigned row) {
    if (AnyNull(placement, instance)) return NVML_ERROR_INVALID_ARGUMENT;
    const MigProfile& profile = MigProfilesOf(gpu.shared, gpu.index)[row];
    if (placement->size != profile.size || placement->start >= 32 ||
        (profile.starts >> placement->start & 1) == 0)
      return NVML_ERROR_INVALID_ARGUMENT;
    return Create(gpu, row, placement->start, instance);
  });
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle) {
  return OnGpuInstance(__func__, handle, [&](Session& session, const MigInstance& instance) {
    if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
    return StatusOf(DestroyMigInstance(session.shared(), instance.index));
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t* instances,
                                       unsigned* count) {
  return OnProfile(__func__, device, id, true, [&](const Gpu& gpu, unsigned row) {
    if (AnyNull(instances, count)) return NVML_ERROR_INVALID_ARGUMENT;
    unsigned written = 0;
    for (const MigInstance& instance : MigInstances(gpu.shared, gpu.index))
      if (instance.row == row) instances[written++] = Session::Current()->HandleOf(instance);
    return Give(count, written);
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t* handle) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureMig) || gpu.now.mig_current.load() == 0) return NVML_ERROR_NOT_SUPPORTED;
    for (const MigInstance& instance : MigInstances(gpu.shared, gpu.index))
      if (instance.id == id) return Give(handle, Session::Current()->HandleOf(instance));
    return NVML_ERROR_NOT_FOUND;
  });
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t* info) {
  return OnGpuInstance(__func__, handle, [&](Session& session, const MigInstance& instance) {
    const MigProfile& profile = ProfileOf(session.shared(), instance);
    return Give(info,
                nvmlGpuInstanceInfo_t{
                    session.HandleOf(instance.gpu), instance.id, profile.id, {instance.start, profile.size}});
  });
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned index,
                                                          unsigned engine,
                                                          nvmlComputeInstanceProfileInfo_t* info) {
  return OnGpuInstance(__func__, handle, [&](Session& session, const MigInstance& instance) {
    constexpr unsigned kCount = 9;
    if (info == nullptr || index >= kCount || engine != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
      return NVML_ERROR_INVALID_ARGUMENT;
    const MigProfile& profile = ProfileOf(session.shared(), instance);
    const auto slices = SlicesOf(index, profile.slices);
    if (!slices) return NVML_ERROR_NOT_SUPPORTED;
    *info = {index,
             *slices,
             profile.slices / *slices,
             profile.multiprocessors * *slices / profile.slices,
             profile.copy_engines,
             profile.decoders,
             0,
             profile.jpegs,
             profile.ofas};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned id,
                                                  nvmlComputeInstance_t* compute) {
  return OnGpuInstance(__func__, handle, [&](Session& session, const MigInstance& instance) {
    if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
    const auto slices = SlicesOf(id, ProfileOf(session.shared(), instance).slices);
    if (compute == nullptr || !slices) return NVML_ERROR_INVALID_ARGUMENT;
    unsigned made = 0;
    const auto status = StatusOf(CreateMigCompute(session.shared(), instance.index, *slices, made));
    return status == NVML_SUCCESS ? Give(compute, session.HandleOf(instance, made)) : status;
  });
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle) {
  return OnInstance(__func__, handle, &Session::ComputeOf, [&](Session& session, const MigDevice& found) {
    if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
    return StatusOf(DestroyMigCompute(session.shared(), found.instance.index, found.compute.id));
  });
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned id,
                                                nvmlComputeInstance_t* computes, unsigned* count) {
  return OnGpuInstance(__func__, handle, [&](Session& session, const MigInstance& instance) {
    if (AnyNull(computes, count)) return NVML_ERROR_INVALID_ARGUMENT;
    if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
    unsigned written = 0;
    for (const MigCompute& each : instance.Computes())
      if (ComputeProfileOf(each.slices) == id) computes[written++] = session.HandleOf(instance, each.id);
    return Give(count, written);
  });
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t* info) {
  return OnInstance(__func__, handle, &Session::ComputeOf, [&](Session& session, const MigDevice& found) {
    return Give(info, nvmlComputeInstanceInfo_t{session.HandleOf(found.instance.gpu),
                                                session.HandleOf(found.instance),
                                                found.compute.id,
                                                ComputeProfileOf(found.compute.slices).value_or(0),
                                                {found.compute.id, found.compute.slices}});
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
