#include "plugins/kubernetes/reporter.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "api/ask.h"
#include "plugins/kubernetes/messages.h"

namespace gpuman::kubernetes {
namespace {

constexpr std::chrono::milliseconds kReportPatience{5000};  // for kubelet, and for gpumand

}  // namespace

Reporter::~Reporter() { thread_.join(); }

void Reporter::Report(const std::filesystem::path& pod_resources, Done done) {
  pod_resources_ = pod_resources;
  next_.push_back(std::move(done));
  if (under_way_.empty()) Begin();
}

void Reporter::Begin() {
  under_way_ = std::exchange(next_, {});
  Call(loop_, pod_resources_, kPodResourcesMethod, "", kReportPatience,
       [alive = std::weak_ptr(alive_)](const base::Result<RpcAnswer>& answer) {
         if (const auto self = alive.lock()) (*self)->OnAnswer(answer);
       });
}

void Reporter::OnAnswer(const base::Result<RpcAnswer>& answer) {
  if (!answer) return Finish(base::Fail(answer.error()));
  const auto& status = answer->status;
  const auto allocations = status.code == RpcCode::kOk ? DecodePodResources(answer->message) : std::nullopt;
  if (!allocations)
    return Finish(base::Fail(base::ErrorCode::kUnavailable,
                             "kubelet does not tell which container has what: " +
                                 (status.message.empty() ? "its answer is not understood" : status.message)));
  boost::asio::post(thread_, [this, table = api::ContainerTable{make_(*allocations)}] {
    api::HttpOptions options;
    options.patience = kReportPatience;
    const auto told = api::Ask(gpumand_, api::routes::kSetContainers, {}, table, options);
    base::Result<> result;
    if (!told) result = base::Fail(told.error());
    boost::asio::post(loop_, [alive = std::weak_ptr(alive_), result] {
      if (const auto self = alive.lock()) (*self)->Finish(result);
    });
  });
}

void Reporter::Finish(const base::Result<>& result) {
  const std::string problem = result ? "" : result.error().message;
  if (!problem.empty() && problem != logged_)
    spdlog::warn("limits of containers that start now are not held: {}", problem);
  if (problem.empty() && !logged_.empty()) spdlog::info("containers are held to what they were given");
  logged_ = problem;
  for (const auto& done : std::exchange(under_way_, {})) done(result);
  if (!next_.empty() && under_way_.empty()) Begin();
}

}  // namespace gpuman::kubernetes
