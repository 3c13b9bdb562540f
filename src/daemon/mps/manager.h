// NVIDIA's MPS on the GPUs of this machine: starts and stops the control daemons, looks at their clients,
// notices daemons that end and processes that are not clients, and finds its control daemons again after a
// restart.
//
//   orders --> worker: mps/control.h --> results on the loop --> records: store; events: Core
//
// Lives on the event loop; blocking calls run on a separate thread. Not thread-safe.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/request_batcher.h"
#include "daemon/config/mps.h"
#include "gpu/inventory.h"
#include "jobs/job.h"
#include "jobs/store.h"
#include "mps/control.h"
#include "mps/placement.h"
#include "mps/record.h"
#include "mps/rivals.h"
#include "mps/watch.h"

namespace gpuman::daemon {

class Core;

// Starting, stopping: an order is in progress. Dead: MPS is wanted, and its control daemon has ended.
enum class MpsState { kStarting, kRunning, kStopping, kDead };

struct MpsUnit {
  MpsState state = MpsState::kStarting;
  mps::GpuRecord record;
  mps::MpsClientWatch watch;
  std::string problem;  // why MPS cannot be looked at, or why it is dead; empty: no problem
  // Protocol 3: the servers and namespaces as they were seen last.
  std::vector<mps::MpsServerStatus> there{};
  // Protocol 3: what could not be changed in them; empty: nothing.
  std::string apply_error{};
  bool settling = false, apply_again = false;
};

class MpsManager {
 public:
  // Sentences for the caller of an order.
  using Notes = std::vector<std::string>;
  using Done = std::function<void(base::Result<Notes>)>;

  // `core` must outlive this object. `root`: the parent of the control daemons' directories; `boot`: the id
  // of this boot.
  MpsManager(Core& core, std::filesystem::path root, std::string boot);
  ~MpsManager();

  void SetSettings(const MpsSettings& settings);
  // Takes over the records that an earlier daemon kept, and looks for its control daemons. Call once.
  void Recall(const jobs::SettingRows& settings);

  // Each calls `done` when the order is carried out or refused. kConflict: somebody else's MPS is on the GPU,
  // clients are, or another order is in progress. kNotSupported: there is no control program.
  void Start(const gpu::Gpu& gpu, const mps::Limits& limits, Done done);
  // The checks that let Start refuse at once.
  base::Result<> MayStart(const gpu::Gpu& gpu);
  void Stop(const gpu::Gpu& gpu, bool force, Done done);
  void Limit(const gpu::Gpu& gpu, const mps::Limits& limits, Done done);
  // kNotFound: no server has such a client.
  void Terminate(pid_t client, Done done);
  // Protocol 3: calls `ready` when the job's programs find their namespace, with its limits, or with the
  // reason why they do not. Where MPS does not run, or by protocol 2, they need none.
  void Prepare(const jobs::Job& job, std::function<void(base::Result<>)> ready);
  // Protocol 3: makes and deletes what jobs have come to need, or need no more.
  void ApplyWhatChanged();
  // Looks at all control daemons and their clients, then calls `then`. All that ask while a look is under way
  // share the next one, so that orders wait for few looks, however many ask. `is_cancelled`: as
  // base::WaitingRequests has it.
  void Refresh(std::function<void()> then, std::function<bool()> is_cancelled = {});

  const std::map<std::string, MpsUnit>& units() const { return units_; }  // by UUID
  bool IsRunning(const std::string& uuid) const;
  bool auto_start() const { return settings_.auto_start; }
  // Where the job's programs are clients; nullopt: MPS does not run there, or by protocol 2.
  std::optional<mps::MpsNamespacePlacement> PlacementFor(const jobs::Job& job) const;
  mps::Directories DirectoriesFor(const std::string& uuid) const { return mps::DirectoriesOf(root_, uuid); }
  // Somebody else's control daemon on the GPU, as of the last Refresh or Start.
  std::optional<mps::FoundControlDaemon> RivalOn(const std::string& uuid) const;
  base::Result<std::filesystem::path> Program() const;

 private:
  // A control daemon that was started, or found.
  struct Launched {
    base::ProcessId control;
    int protocol = 2;
    bool time_slices = false;
  };
  static base::Result<Launched> LaunchOnWorker(const std::filesystem::path& program,
                                               const std::filesystem::path& root,
                                               const base::ProcessTable& table, MpsProtocolSetting setting,
                                               const std::optional<mps::FoundControlDaemon>& runs,
                                               const std::string& uuid, const mps::Limits& limits);
  // What one poll of a GPU's MPS found; the servers are read on the worker.
  struct PollResult {
    std::vector<pid_t> on_gpu;
    base::Result<std::vector<mps::MpsServerStatus>> servers = std::vector<mps::MpsServerStatus>{};
  };
  using WhenApplied =
      std::function<void(const base::Result<mps::AppliedLimits>& applied, const mps::WantedOnGpu& wanted)>;
  void Aside(std::function<void()> work, std::function<void()> then);
  base::Result<std::shared_ptr<mps::Control>> MakeControl(int protocol) const;
  base::Result<MpsUnit*> Free(const gpu::Gpu& gpu);
  void Launch(const std::string& uuid, const mps::Limits& limits, Done done);
  void OnLaunched(const std::string& uuid, base::Result<Launched> started, const Done& done);
  mps::WantedOnGpu WantedOn(const std::string& uuid) const;
  void ApplyLimits(const std::string& uuid, const WhenApplied& then);
  void OnApplied(const std::string& uuid, const base::Result<mps::AppliedLimits>& applied);
  void Quit(const std::string& uuid, bool force, Done done);
  void Adopt(const std::string& uuid, base::ProcessId control);
  void OnEnded(const std::string& uuid);
  void Keep(const std::string& uuid);
  void Tell(const std::string& kind, const std::string& gpu, const std::string& message,
            std::map<std::string, std::int64_t> data);
  // The processes that the driver shows on the GPU, as of the latest sample.
  std::vector<pid_t> ProcessesOn(const std::string& gpu) const;
  // "pid 4711 (python, user ann, job 3)"
  std::string DescribeProcess(pid_t pid) const;
  std::string DescribeClients(const std::vector<mps::MpsClient>& clients) const;
  void Tick();
  void Poll(std::function<void()> then);
  void Take(const std::string& uuid, const PollResult& seen);

  Core& core_;
  const std::filesystem::path root_;
  const std::string boot_;
  MpsSettings settings_;
  std::map<std::string, MpsUnit> units_;
  std::map<std::string, boost::asio::posix::stream_descriptor> ends_;  // pidfds of control daemons
  std::vector<mps::FoundControlDaemon> controls_;
  boost::asio::steady_timer timer_;
  struct LookRequest {
    std::function<void()> then;
    std::function<bool()> is_cancelled{};
  };
  base::RequestBatcher<LookRequest> looks_;
  boost::asio::thread_pool worker_{1};
};

}  // namespace gpuman::daemon
