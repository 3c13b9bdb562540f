// MPS: its servers and clients on each GPU, and what is ordered of it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "api/json.h"
#include "daemon/mps/views.h"
#include "daemon/routes/routes.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;
using Notes = MpsManager::Notes;

void ShowMps(Service& service, const ExchangePtr& exchange, const Notes& notes) {
  service.mps().Refresh([&service, exchange, notes] {
    SendJson(exchange, api::Encode(MpsReportOf(service.mps(), service.MpsView(), notes)));
  });
}

// One order for each GPU, one after the other; the first that is refused is the answer, after what was done
// before it is taken back. Without `undo` that stays.
using OrderOne = std::function<void(const gpu::Gpu&, MpsManager::Done)>;
struct Orders {
  std::vector<gpu::Gpu> gpus;
  OrderOne order, undo;
  Notes notes;
  std::size_t next = 0;
};

void TakeBack(const ExchangePtr& exchange, const std::shared_ptr<Orders>& orders, base::Error error) {
  if (orders->next == 0) return SendError(exchange, error);
  const auto& gpu = orders->gpus[--orders->next];
  orders->undo(gpu, [exchange, orders, index = gpu.index, error](const base::Result<Notes>& undone) mutable {
    error.message += undone ? fmt::format("; GPU {}: stopped again", index)
                            : fmt::format("; GPU {}: it runs, and could not be stopped again: {}", index,
                                          undone.error().message);
    TakeBack(exchange, orders, std::move(error));
  });
}

void Work(Service& service, const ExchangePtr& exchange, const std::shared_ptr<Orders>& orders) {
  if (orders->next == orders->gpus.size()) return ShowMps(service, exchange, orders->notes);
  const auto& gpu = orders->gpus[orders->next++];
  orders->order(gpu, [&service, exchange, orders](base::Result<Notes> done) {
    if (!done) {
      auto error = std::move(done.error());
      --orders->next;
      if (orders->undo) return TakeBack(exchange, orders, std::move(error));
      if (orders->next > 0)
        error.message += fmt::format("; it was done on {} of {} GPUs", orders->next, orders->gpus.size());
      return SendError(exchange, error);
    }
    for (auto& note : *done)
      if (std::find(orders->notes.begin(), orders->notes.end(), note) == orders->notes.end())
        orders->notes.push_back(std::move(note));
    Work(service, exchange, orders);
  });
}

base::Result<std::vector<gpu::Gpu>> GpusFor(Service& service, const std::vector<std::string>& named) {
  const auto& all = service.core().whole_gpus().gpus;
  if (all.empty())
    return base::Fail(base::ErrorCode::kUnavailable,
                      "there are no GPUs: " + service.core().whole_gpus().problem);
  return named.empty() ? all : gpu::SelectAll(all, named);
}

// Shared by the orders of one request, which are carried out one after the other.
void Order(Service& service, const ExchangePtr& exchange, const std::vector<std::string>& named,
           OrderOne order, OrderOne undo = {}) {
  auto gpus = GpusFor(service, named);
  if (!gpus) return SendError(exchange, gpus.error());
  Work(service, exchange,
       std::make_shared<Orders>(Orders{std::move(*gpus), std::move(order), std::move(undo), {}, 0}));
}

// None named: those where it runs.
base::Result<std::vector<std::string>> Running(Service& service, std::vector<std::string> named) {
  if (!named.empty()) return named;
  for (const auto& gpu : service.core().whole_gpus().gpus)
    if (service.mps().units().contains(gpu.uuid)) named.push_back(gpu.uuid);
  if (named.empty()) return base::Fail(base::ErrorCode::kConflict, "no MPS of gpuman runs on any GPU");
  return named;
}

base::Result<mps::Limits> LimitsOn(const gpu::Gpu& gpu, const api::MpsOrder& order) {
  mps::Limits limits;
  limits.threads = order.threads;
  if (order.memory) limits.memory = order.memory->Of(gpu.memory);
  auto valid = mps::Validate(limits, gpu.memory);
  if (!valid) return base::Fail(std::move(valid.error()).In(fmt::format("GPU {}", gpu.index)));
  return limits;
}

// Every GPU's limits before anything is done on the first.
base::Result<> CheckAll(Service& service, const api::MpsOrder& order) {
  GPUMAN_ASSIGN(const auto gpus, GpusFor(service, order.gpus));
  for (const auto& gpu : gpus) GPUMAN_TRY(LimitsOn(gpu, order));
  return {};
}

void Start(Service& service, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsOrder>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  if (auto fine = CheckAll(service, *order); !fine) return SendError(exchange, fine.error());
  for (const auto& gpu : GpusFor(service, order->gpus).value_or(std::vector<gpu::Gpu>{}))
    if (auto may = service.mps().MayStart(gpu); !may) return SendError(exchange, may.error());
  Order(
      service, exchange, order->gpus,
      [&service, order = *order](const gpu::Gpu& gpu, MpsManager::Done done) {
        service.mps().Start(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
      },
      [&service](const gpu::Gpu& gpu, MpsManager::Done done) {
        service.mps().Stop(gpu, false, std::move(done));
      });
}

void Limit(Service& service, const ExchangePtr& exchange) {
  auto order = api::Decode<api::MpsOrder>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  if (!order->threads && !order->memory)
    return SendError(exchange, {base::ErrorCode::kInvalidArgument, "there is no limit to set",
                                "give --threads 50% or --memory 8GiB"});
  auto running = Running(service, std::move(order->gpus));
  if (!running) return SendError(exchange, running.error());
  order->gpus = std::move(*running);
  if (auto fine = CheckAll(service, *order); !fine) return SendError(exchange, fine.error());
  Order(service, exchange, order->gpus,
        [&service, order = *order](const gpu::Gpu& gpu, MpsManager::Done done) {
          service.mps().Limit(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
        });
}

void Stop(Service& service, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsStop>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  const auto named = Running(service, order->gpus);
  if (!named) return SendError(exchange, named.error());
  Order(service, exchange, *named,
        [&service, force = order->force](const gpu::Gpu& gpu, MpsManager::Done done) {
          service.mps().Stop(gpu, force, std::move(done));
        });
}

void Terminate(Service& service, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsTermination>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  service.mps().Terminate(order->pid, [&service, exchange](base::Result<Notes> done) {
    if (!done) return SendError(exchange, done.error());
    ShowMps(service, exchange, *done);
  });
}

http::RouteHandler For(Service& service, Act act, void (*handle)(Service&, const ExchangePtr&)) {
  return [&service, act, handle](const ExchangePtr& exchange, const http::PathParameters&) {
    if (auto may = service.core().Check(exchange->request().peer, act); !may)
      return SendError(exchange, may.error());
    service.core().WhenReady([&service, exchange, handle] { handle(service, exchange); });
  };
}

}  // namespace

void AddMpsRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/mps", For(service, Act::kSee, [](Service& daemon, const ExchangePtr& exchange) {
               ShowMps(daemon, exchange, {});
             }));
  router.Add("POST", "/v1/mps/start", For(service, Act::kManage, &Start));
  router.Add("POST", "/v1/mps/stop", For(service, Act::kManage, &Stop));
  router.Add("POST", "/v1/mps/limit", For(service, Act::kManage, &Limit));
  router.Add("POST", "/v1/mps/terminate", For(service, Act::kManage, &Terminate));
}

}  // namespace gpuman::daemon
