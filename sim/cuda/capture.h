// Work recorded from capturing streams, in the order of the calls, and graphs of that work. A launch runs the
// work in exactly that order, which is permitted whatever streams captured the work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "driver/abi/cuda.h"

namespace gpuman::sim::cuda {

// NOLINTNEXTLINE(google-build-using-namespace): the vendor's names are this folder's subject
using namespace driver::abi;

struct GraphNode {
  CUgraphNodeType type;
  std::function<void()> run;
};

struct Graph {
  std::mutex mutex;  // guards nodes
  std::vector<std::shared_ptr<GraphNode>> nodes;
};

struct GraphExec {
  std::vector<std::shared_ptr<GraphNode>> nodes;
};

class Capture {
 public:
  // Captures into a graph of its own, or into the program's graph `handle`, which the end of the capture
  // returns.
  Capture(CUstreamCaptureMode mode, std::uint64_t id) : mode_(mode), id_(id) {}
  Capture(CUstreamCaptureMode mode, std::uint64_t id, std::shared_ptr<Graph> graph, CUgraph handle)
      : mode_(mode), id_(id), handle_(handle), graph_(std::move(graph)) {}

  std::uint64_t id() const { return id_; }
  CUstreamCaptureMode mode() const { return mode_; }
  std::thread::id thread() const { return thread_; }
  bool invalidated() const { return invalidated_.load(); }
  void Invalidate() { invalidated_.store(true); }
  void Add(CUgraphNodeType type, std::function<void()> run) {
    const std::lock_guard lock(graph_->mutex);
    graph_->nodes.push_back(std::make_shared<GraphNode>(GraphNode{type, std::move(run)}));
  }
  const std::shared_ptr<Graph>& graph() const { return graph_; }
  CUgraph handle() const { return handle_; }  // null: the capture made its own graph

 private:
  const CUstreamCaptureMode mode_;
  const std::uint64_t id_;
  const CUgraph handle_ = nullptr;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> invalidated_{false};
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
};

}  // namespace gpuman::sim::cuda
