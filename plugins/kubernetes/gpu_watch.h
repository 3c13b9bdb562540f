// Keeps an eye on gpumand from a thread of its own: the GPUs, again after each event that is about one, and
// whether it is there.
//
// The thread sleeps in a read of the event stream; it looks at intervals only while gpumand is away or has
// only just begun and does not know its GPUs yet.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/result.h"
#include "plugins/kubernetes/inventory.h"

namespace gpuman::kubernetes {

class GpuWatch {
 public:
  // Both are called on the thread.
  struct Listener {
    std::function<void(Inventory)> on_gpus;
    std::function<void(base::Error)> on_away;  // again for each failed try
  };

  // `root` is where /proc and /sys begin.
  static base::Result<std::unique_ptr<GpuWatch>> Start(std::filesystem::path gpumand,
                                                       std::filesystem::path root, Listener listener);
  // Ends the thread. No call is under way afterwards.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

 private:
  GpuWatch(std::filesystem::path gpumand, std::filesystem::path root, Listener listener, base::Fd stop)
      : gpumand_(std::move(gpumand)),
        root_(std::move(root)),
        listener_(std::move(listener)),
        stop_(std::move(stop)) {}
  void Run();
  base::Result<> Follow();
  base::Result<> Look();
  base::Result<Inventory> Ask();
  // False: the end has come.
  bool Pause(std::chrono::milliseconds time) const;

  const std::filesystem::path gpumand_, root_;
  const Listener listener_;
  const base::Fd stop_;  // readable: end
  bool answered_ = false;
  std::optional<api::MigReport> mig_;  // as it was told last
  std::thread thread_;
};

}  // namespace gpuman::kubernetes
