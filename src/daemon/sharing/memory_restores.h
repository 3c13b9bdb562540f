// Memory of shared jobs on its way back to their GPUs. For each Restore of the scheduler the jobs' movers
// load the memory as room is granted (MovedIn), and in the end there is a RestoreDone. The mover holds what
// it has loaded until the job's processes take it, which they do when the job's gate is opened.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "base/untrusted_socket.h"
#include "base/weak_self.h"
#include "daemon/sharing/process_gpu.h"
#include "daemon/sharing/shared_job.h"
#include "share/events.h"
#include "suspend/checkpointer.h"

namespace gpuman::daemon {

class ShimChannel;
class SuspendController;

class MemoryRestores {
 public:
  // Gets MovedIn and RestoreDone; may call this object.
  using Tell = std::function<void(const share::Event&)>;

  // `loop`, `shims` and `suspension` must outlive this object.
  MemoryRestores(boost::asio::io_context& loop, ShimChannel& shims, SuspendController& suspension, Tell tell);
  MemoryRestores(const MemoryRestores&) = delete;
  MemoryRestores& operator=(const MemoryRestores&) = delete;

  // All memory of the job that is away comes back, as Grant gives it room.
  void Begin(const SharedJob& job, share::OrderId order);
  void Grant(base::JobId job, const std::string& gpu, base::Bytes bytes);
  // The memory that came leaves the GPU again. Host memory still holds all of it. Does nothing where none
  // comes back.
  void Stop(base::JobId job, const std::string& why);
  // Has the mover give the process its memory back over the connection that the process has sent; calls
  // `then` afterwards, whatever came of it.
  void Give(const SharedJob& job, base::ProcessId process, base::UntrustedSocket connection,
            std::function<void()> then);
  // Ends the restore without a RestoreDone, and has all that the mover has loaded leave the GPU.
  void Abort(const SharedJob& job);
  // The job has left: it gets no more events.
  void Forget(base::JobId job) { jobs_.erase(job); }

  bool IsUnderWay(base::JobId job) const;
  // The GPUs to which memory of the job comes back.
  std::set<std::string> GpusOf(base::JobId job) const;
  // Memory in host memory of the jobs whose memory comes back.
  base::Bytes HostMemoryOfRestores() const;

  // Memory that a mover has loaded on the GPU and that the process has not taken yet.
  base::Bytes LoadedOf(base::JobId job, const ProcessGpu& key) const;
  bool HasLoaded(base::JobId job) const;
  // The job's processes have taken all of it.
  void ForgetLoaded(base::JobId job);
  // Forgets that of processes that are gone.
  void ForgetLoaded(base::JobId job, const std::function<bool(const base::ProcessId&)>& is_gone);

  // Frees loaded memory of the job on that GPU, until at least `wanted` bytes are to go, and returns how many
  // go. Calls `begin` for each process now, and `done` once that process's memory is in host memory.
  using Secured = std::function<void(const ProcessGpu&, base::Bytes bytes, base::Bytes copied)>;
  base::Bytes SecureLoaded(const SharedJob& job, const std::string& gpu, base::Bytes wanted,
                           const std::function<void()>& begin, const Secured& done);

 private:
  struct Load {
    std::string source;  // as the mover is asked for it: SourceName
    base::Bytes need{}, granted{}, came{};
    base::Bytes again{};   // bytes that are copied again, and of which the scheduler was already told
    base::Bytes copied{};  // in this try, as far as it was told
    bool done = false;
    int tries = 0;
  };
  struct Restore {
    suspend::MoverUser owner;
    share::OrderId order = 0;
    std::map<ProcessGpu, Load> loads{};
    bool stopping = false;
    unsigned securing = 0;
    std::string why{};
  };
  struct Job {
    std::optional<Restore> current;
    std::map<ProcessGpu, base::Bytes> loaded;
  };

  // The restore of this order, while its memory comes; nullptr: it is over, or being stopped.
  Restore* FindUnderWay(base::JobId job, share::OrderId order);
  void Start(base::JobId job, const Restore& current, const ProcessGpu& key, base::Bytes room);
  void OnLoaded(base::JobId job, const ProcessGpu& key, share::OrderId order, base::Bytes bytes,
                base::Bytes copied);
  void OnEnd(base::JobId job, const ProcessGpu& key, share::OrderId order,
             const suspend::MoverAnswer& answer);
  void TryAgain(base::JobId job, const ProcessGpu& key, share::OrderId order);
  void Finish(base::JobId job);
  void Secure(const suspend::MoverUser& owner, base::ProcessId process, const std::string& source,
              suspend::Checkpointer::Done done);

  boost::asio::io_context& loop_;
  ShimChannel& shims_;
  SuspendController& suspension_;
  suspend::Checkpointer& movers_;
  Tell tell_;
  std::map<base::JobId, Job> jobs_;
  base::WeakSelf<MemoryRestores> self_{this};
};

}  // namespace gpuman::daemon
