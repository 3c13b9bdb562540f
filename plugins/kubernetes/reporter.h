// Tells gpumand what each container on this node has: asks kubelet whenever the allocations may have changed,
// and sends gpumand the whole table.
//
// Lives on the event loop; not thread-safe. A thread of its own talks to gpumand.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugins/kubernetes/rpc_client.h"
#include "plugins/kubernetes/table.h"

namespace gpuman::kubernetes {

class Reporter {
 public:
  using Done = std::function<void(base::Result<>)>;
  using MakeTable =
      std::function<std::vector<api::ContainerAllocation>(const std::vector<ContainerDeviceIds>&)>;

  Reporter(boost::asio::io_context& loop, std::filesystem::path gpumand, MakeTable make)
      : loop_(loop), gpumand_(std::move(gpumand)), make_(std::move(make)) {}
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Calls `done` when gpumand knows all that kubelet knew at the time of this call, or with the error. Calls
  // that come during a report are all answered by one further report.
  void Report(const std::filesystem::path& pod_resources, Done done);

 private:
  void Begin();
  void OnAnswer(const base::Result<RpcAnswer>& answer);
  void Finish(const base::Result<>& result);

  boost::asio::io_context& loop_;
  const std::filesystem::path gpumand_;
  const MakeTable make_;
  std::filesystem::path pod_resources_;
  std::vector<Done> under_way_, next_;
  std::string logged_;  // the problem that is already in the log
  std::shared_ptr<Reporter*> alive_ = std::make_shared<Reporter*>(this);
  boost::asio::thread_pool thread_{1};  // last: its work uses the other members
};

}  // namespace gpuman::kubernetes
