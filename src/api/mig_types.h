// The parts into which GPUs are split, as the API shows them. Values; mig/device.h says what the words mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"

namespace gpuman::api {

struct MigProcessView {
  int pid = 0;
  std::string name;                   // empty: not known
  bool gpuman = false;                // a part of gpuman: it ends by itself
  std::optional<std::int64_t> job{};  // the job that it belongs to
  std::optional<std::string> tag{};   // of the job
};

struct MigProfileView {
  std::string name;  // "3g.71gb"
  unsigned id = 0;   // as nvidia-smi numbers it
  unsigned slices = 0;
  unsigned multiprocessors = 0;
  base::Bytes memory;
  unsigned most = 0;
  unsigned decoders = 0, jpegs = 0, ofas = 0;
  unsigned size = 0;             // slices of the memory
  std::vector<unsigned> starts;  // where it can begin
};

struct MigComputeView {
  unsigned id = 0;
  unsigned slices = 0;
  std::optional<std::string> uuid;    // "MIG-…", for CUDA_VISIBLE_DEVICES
  std::optional<std::string> number;  // "0:1", as people call it; null: not known yet
};

struct MigInstanceView {
  unsigned id = 0;
  std::string profile;
  unsigned start = 0, size = 0;  // slices of the memory
  base::Bytes memory;
  std::vector<MigComputeView> compute;
  std::vector<MigProcessView> processes;
};

struct MigGpu {
  int index = 0;
  std::string uuid;
  std::string name;
  bool supported = false;
  bool enabled = false;              // now
  bool pending = false;              // after the next reset
  std::optional<std::string> error;  // why nothing is known
  std::vector<MigInstanceView> instances;
  std::vector<std::string> layout;                 // the instances as words: "3g.71gb", "2x1g.18gb"
  std::optional<std::vector<std::string>> wanted;  // the layout that gpuman keeps; null: none was asked for
  std::optional<bool> wanted_enabled;
  bool drifted = false;  // the GPU is not as wanted
  std::vector<MigProfileView> profiles;
};

// GET /v1/mig
struct MigReport {
  std::vector<MigGpu> gpus;
};

struct MigConfigSpec {
  std::vector<std::string> gpus;     // index, UUID or beginning of a UUID; none: all
  std::vector<std::string> filters;  // PCI device ids, "0x233510DE": only GPUs with these
  bool enabled = true;
  std::vector<std::string> instances;
  // The mode stays as the daemon finds it, whatever `enabled` says; then no instances, and
  // MigRequest::forget.
  bool keep_mode = false;
};

// POST /v1/mig/plan, /v1/mig/apply
struct MigRequest {
  std::vector<MigConfigSpec> devices;
  bool forget = false;  // from now on gpuman keeps no layout
};

struct MigStepView {
  std::string kind;  // enable, disable, create_gpu, …
  std::string text;
  std::optional<std::string> profile;
  std::optional<unsigned> start;
};

struct MigGpuChange {
  int index = 0;
  std::string uuid;
  std::vector<MigStepView> steps;
  std::vector<unsigned> kept;  // ids of GPU instances
  std::vector<MigProcessView> in_the_way;
  bool done = false;
  std::optional<std::string> needs_reset;  // why
  std::optional<std::string> error;        // why it is not done
};

struct MigChanges {
  std::vector<MigGpuChange> gpus;
};

}  // namespace gpuman::api
