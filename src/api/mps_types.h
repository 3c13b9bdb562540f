// NVIDIA's MPS on the GPUs, as the API shows it (docs/mps.md). Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::api {

struct MpsProcess {
  int pid = 0;
  std::optional<std::string> user;
  std::optional<std::string> name;
  std::optional<std::int64_t> job;  // null: gpuman does not manage it
  std::optional<std::string> tag;
  std::optional<double> threads;          // percent of the GPU's threads that it may use; null: no limit
  std::optional<base::Bytes> memory;      // the most that it may have; null: no limit
  bool limits_known = true;               // false: it is older than gpumand, and may have other limits
  std::optional<std::string> name_space;  // of its server; null: not told, as by protocol 2
};

// Of protocol 3: the clients of one job, with limits of their own.
struct MpsNamespace {
  std::string name;
  std::optional<std::int64_t> job;    // null: gpuman did not make it
  std::optional<double> threads;      // for clients that start from now on; null: no limit
  std::optional<base::Bytes> memory;  // likewise
};

// One server for each user. By protocol 2 only one user's server runs at a time.
struct MpsServer {
  int pid = 0;
  std::optional<std::string> user;
  std::optional<double> threads;  // for clients that start from now on; null: not told
  std::optional<base::Bytes> memory;
  std::vector<MpsProcess> clients;
  std::optional<std::string> name;  // null: it has none, as by protocol 2
  std::optional<double>
      time_slice;  // percent of the GPU's time beside other servers; null: as the driver does
  std::vector<MpsNamespace> namespaces;
};

struct MpsGpu {
  std::optional<int> index;  // null: the driver does not list it any more
  std::string uuid;
  std::string name;
  std::string state = "off";  // off starting running stopping dead foreign
  std::optional<std::string> problem;
  std::optional<int> pid;       // of the control daemon
  std::optional<int> protocol;  // of its control program, 2 or 3; null: none of gpuman's runs
  std::optional<base::WallTime> since;
  std::string pipe_directory;
  std::optional<double> threads;  // for servers that start
  std::optional<base::Bytes> memory;
  std::vector<MpsServer> servers;
  std::vector<MpsProcess> outside;    // on the GPU, but clients of no server: no limit of MPS holds for them
  std::vector<std::int64_t> waiting;  // jobs that asked for MPS and wait for another user's server to end
};

// GET /v1/mps, and the answer to each order.
struct MpsReport {
  std::optional<std::string> program;  // nvidia-cuda-mps-control; null: there is none
  std::vector<MpsGpu> gpus;
  std::vector<std::string> notes;  // what the caller should know, in sentences
};

// POST /v1/mps/start and /v1/mps/limit.
struct MpsOrder {
  std::vector<std::string> gpus;  // index, UUID or UUID prefix; empty: every GPU
  std::optional<double> threads;  // percent, 1 to 100
  std::optional<base::SizeSpec> memory;
};
// POST /v1/mps/stop
struct MpsStop {
  std::vector<std::string> gpus;
  bool force = false;  // its clients lose the GPU
};
// POST /v1/mps/terminate
struct MpsTermination {
  int pid = 0;  // of a client
};

}  // namespace gpuman::api
