// The configuration file of gpuman-kube-plugin (TOML; docs/kubernetes.md describes it).
//
// Values; parsing is a pure function. An unknown key is an error, and so is a setting that cannot be right on
// any machine, such as one GPU in two resources.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/compute_share.h"

namespace gpuman::kubernetes {

// What one device of a resource stands for.
enum class ResourceKind {
  kWhole,   // a GPU
  kMemory,  // a GiB of a GPU's memory
  kSlice,   // `size` of a GPU's memory
  kShared,  // one of `replicas` turns on a GPU, each with all of its memory
  kMig      // a MIG instance of `profile`
};

struct Resource {
  std::string name;  // "gpuman.io/gpumem-gib"
  ResourceKind kind = ResourceKind::kWhole;
  // Index or UUID of each GPU of the resource; empty: all GPUs that no other resource names.
  std::vector<std::string> gpus;
  base::Bytes size = base::GiB(1);  // of a device; kMemory and kSlice
  base::Bytes reserve;              // of each GPU, never allocated; kMemory and kSlice
  std::uint32_t replicas = 0;       // kShared
  std::string profile;              // kMig: "1g.18gb"
  // Of the time of each of its GPUs, for each container; kShared. Absent: it has what others leave.
  std::optional<spec::ComputeShare> compute;
  std::optional<int> priority;  // of its containers when a GPU's memory runs out; absent: the pods decide
  friend bool operator==(const Resource&, const Resource&) = default;
};

// How a container gets its GPUs; several ways may be enabled.
struct DeviceInjectionOptions {
  bool environment = false;  // NVIDIA_VISIBLE_DEVICES, for NVIDIA's container runtime
  bool cdi = false;          // names of the Container Device Interface
  bool nodes = false;        // /dev/nvidia…
  friend bool operator==(const DeviceInjectionOptions&, const DeviceInjectionOptions&) = default;
};

struct MountRule {
  std::string host, container;  // absolute
  bool writable = false;
  friend bool operator==(const MountRule&, const MountRule&) = default;
};

struct Config {
  std::filesystem::path kubelet = "/var/lib/kubelet/device-plugins";
  std::filesystem::path pod_resources = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::filesystem::path gpumand = "/run/gpuman/gpumand.sock";
  DeviceInjectionOptions handing{.environment = true};
  std::string cdi_kind = "nvidia.com/gpu";
  bool limits = true;             // the plugin tells gpumand what each container has, and gpumand enforces it
  bool required = false;          // no container starts unless gpumand knows of it
  bool preload = true;            // the shim is preloaded into every container and holds the limit there
  std::vector<MountRule> mounts;  // for every container
  std::map<std::string, std::string> environment;  // for every container
  std::vector<Resource> resources;                 // at least one, no name occurs twice
};

// kInvalidArgument; the message has a line "FILE:LINE: KEY: what" for each problem.
base::Result<Config> ParseConfig(std::string_view text, const std::string& file);

}  // namespace gpuman::kubernetes
