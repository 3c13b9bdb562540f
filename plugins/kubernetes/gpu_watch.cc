#include "plugins/kubernetes/gpu_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "api/ask.h"
#include "api/client.h"
#include "api/event_stream.h"
#include "api/json.h"

namespace gpuman::kubernetes {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{200}, kLongestPause{5000};

// Whether the event may change the GPUs. Events of jobs do not.
bool IsAboutGpus(const std::string& data) {
  const auto event = api::Decode<api::EventView>(data);
  return event &&
         ((event->gpu && !event->job) || event->kind.starts_with("mig_") || event->kind.starts_with("gpu_"));
}

}  // namespace

base::Result<std::unique_ptr<GpuWatch>> GpuWatch::Start(std::filesystem::path gpumand,
                                                        std::filesystem::path root, Listener listener) {
  base::Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.ok()) return base::FailSystem(errno, "making an event");
  std::unique_ptr<GpuWatch> watch(
      new GpuWatch(std::move(gpumand), std::move(root), std::move(listener), std::move(stop)));
  watch->thread_ = std::thread([self = watch.get()] { self->Run(); });
  return watch;
}

GpuWatch::~GpuWatch() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::Run() {
  ::pthread_setname_np(::pthread_self(), "gpumand");
  milliseconds pause = kFirstPause;
  do {
    answered_ = false;
    auto followed = Follow();
    if (answered_) pause = kFirstPause;
    if (!Pause(milliseconds(0))) return;
    listener_.on_away(followed ? base::Error{base::ErrorCode::kUnavailable, "gpumand has ended"}
                               : followed.error());
    pause = std::min(pause * 2, kLongestPause);
  } while (Pause(pause / 2));
}

base::Result<> GpuWatch::Follow() {
  api::EventStreamReader reader;
  base::Result<> looked;
  api::HttpOptions options;
  options.patience.reset();
  options.wake_fd = stop_.get();
  options.on_wake = [] { return false; };
  options.sink = [&](std::string_view piece) {
    // The first bytes say that the stream has begun: it will have all events from now on.
    bool look = !answered_;
    for (const auto& data : reader.Feed(piece)) look = IsAboutGpus(data) || look;
    if (look) looked = Poll();
    return looked.has_value();
  };
  const api::Client gpumand(gpumand_);
  GPUMAN_TRY(gpumand.AskRaw(api::RequestFor(api::routes::kEvents, {{}, api::Query().AddFlag("follow", true)}),
                            options));
  return looked;
}

base::Result<> GpuWatch::Poll() {
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    GPUMAN_ASSIGN(auto inventory, Ask());
    answered_ = true;
    const bool incomplete = inventory.incomplete;
    listener_.on_gpus(std::move(inventory));
    if (!incomplete || !Pause(pause)) return {};
  }
}

base::Result<Inventory> GpuWatch::Ask() {
  const api::Client gpumand(gpumand_);
  GPUMAN_ASSIGN(const auto gpus, gpumand.Gpus());
  // gpumand asks the driver for this report, and the driver may hang or fail: the last report counts then, so
  // that the plugin neither takes a split GPU for a whole one nor every GPU for unhealthy.
  if (auto mig = api::AskWithoutTimeout(gpumand, api::routes::kMig))
    mig_ = std::move(*mig);
  else if (!mig_ && !gpus.gpus.empty() && mig.error().code != base::ErrorCode::kNotSupported)
    return base::Fail(std::move(mig.error()));
  auto inventory = InventoryOf(gpus, mig_.value_or(api::MigReport{}), ReadNodeGpus(root_));
  // An older gpumand does not know the request.
  const auto containers = api::Ask(gpumand_, api::routes::kContainers);
  if (containers)
    inventory.files = containers->files;
  else if (containers.error().code != base::ErrorCode::kNotFound)
    return base::Fail(containers.error());
  return inventory;
}

bool GpuWatch::Pause(milliseconds time) const {
  pollfd stop{stop_.get(), POLLIN, 0};
  return ::poll(&stop, 1, static_cast<int>(time.count())) == 0;
}

}  // namespace gpuman::kubernetes
