// Watches gpumand on a thread of its own: reads the GPUs at the start and after each event about a GPU, and
// reports when gpumand is away.
//
// The thread sleeps in a read of the event stream; it polls only while gpumand is away or has just begun and
// does not know its GPUs yet.
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
  // The thread calls both functions.
  struct Listener {
    std::function<void(Inventory)> on_gpus;
    std::function<void(base::Error)> on_away;  // called again for each failed attempt
  };

  // `root` holds /proc and /sys.
  static base::Result<std::unique_ptr<GpuWatch>> Start(std::filesystem::path gpumand,
                                                       std::filesystem::path root, Listener listener);
  // Ends the thread. No call is in progress afterwards.
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
  base::Result<> Poll();
  base::Result<Inventory> Ask();
  // False: the destructor has ended the wait.
  bool Pause(std::chrono::milliseconds time) const;

  const std::filesystem::path gpumand_, root_;
  const Listener listener_;
  const base::Fd stop_;  // readable: the thread must end
  bool answered_ = false;
  std::optional<api::MigReport> mig_;  // the last answer
  std::thread thread_;
};

}  // namespace gpuman::kubernetes
