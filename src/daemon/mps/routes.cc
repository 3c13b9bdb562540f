// MPS: its servers and clients on each GPU, and what is ordered of it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/mps/module.h"
#include "daemon/mps/views.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;
using Notes = MpsManager::Notes;

void ShowMps(MpsModule& module, const ExchangePtr& exchange, const Notes& notes) {
  module.manager().Refresh([&module, exchange, notes] {
    SendJson(exchange, api::Encode(MpsReportOf(module.manager(), module.Context(), notes)));
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

void Work(MpsModule& module, const ExchangePtr& exchange, const std::shared_ptr<Orders>& orders) {
  if (orders->next == orders->gpus.size()) return ShowMps(module, exchange, orders->notes);
  const auto& gpu = orders->gpus[orders->next++];
  orders->order(gpu, [&module, exchange, orders](base::Result<Notes> done) {
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
    Work(module, exchange, orders);
  });
}

base::Result<std::vector<gpu::Gpu>> GpusFor(MpsModule& module, const std::vector<std::string>& named) {
  const auto& all = module.core().whole_gpus().gpus;
  if (all.empty())
    return base::Fail(base::ErrorCode::kUnavailable,
                      "there are no GPUs: " + module.core().whole_gpus().problem);
  return named.empty() ? all : gpu::SelectAll(all, named);
}

// Shared by the orders of one request, which are carried out one after the other.
void Order(MpsModule& module, const ExchangePtr& exchange, const std::vector<std::string>& named,
           OrderOne order, OrderOne undo = {}) {
  auto gpus = GpusFor(module, named);
  if (!gpus) return SendError(exchange, gpus.error());
  Work(module, exchange,
       std::make_shared<Orders>(Orders{std::move(*gpus), std::move(order), std::move(undo), {}, 0}));
}

// None named: those where it runs.
base::Result<std::vector<std::string>> Running(MpsModule& module, std::vector<std::string> named) {
  if (!named.empty()) return named;
  for (const auto& gpu : module.core().whole_gpus().gpus)
    if (module.manager().units().contains(gpu.uuid)) named.push_back(gpu.uuid);
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
base::Result<> CheckAll(MpsModule& module, const api::MpsOrder& order) {
  GPUMAN_ASSIGN(const auto gpus, GpusFor(module, order.gpus));
  for (const auto& gpu : gpus) GPUMAN_TRY(LimitsOn(gpu, order));
  return {};
}

void StartMps(MpsModule& module, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsOrder>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  if (auto fine = CheckAll(module, *order); !fine) return SendError(exchange, fine.error());
  for (const auto& gpu : GpusFor(module, order->gpus).value_or(std::vector<gpu::Gpu>{}))
    if (auto may = module.manager().MayStart(gpu); !may) return SendError(exchange, may.error());
  Order(
      module, exchange, order->gpus,
      [&module, order = *order](const gpu::Gpu& gpu, MpsManager::Done done) {
        module.manager().Start(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
      },
      [&module](const gpu::Gpu& gpu, MpsManager::Done done) {
        module.manager().Stop(gpu, false, std::move(done));
      });
}

void LimitMps(MpsModule& module, const ExchangePtr& exchange) {
  auto order = api::Decode<api::MpsOrder>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  if (!order->threads && !order->memory)
    return SendError(exchange, {base::ErrorCode::kInvalidArgument, "there is no limit to set",
                                "give --threads 50% or --memory 8GiB"});
  auto running = Running(module, std::move(order->gpus));
  if (!running) return SendError(exchange, running.error());
  order->gpus = std::move(*running);
  if (auto fine = CheckAll(module, *order); !fine) return SendError(exchange, fine.error());
  Order(module, exchange, order->gpus, [&module, order = *order](const gpu::Gpu& gpu, MpsManager::Done done) {
    module.manager().Limit(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
  });
}

void StopMps(MpsModule& module, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsStop>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  const auto named = Running(module, order->gpus);
  if (!named) return SendError(exchange, named.error());
  Order(module, exchange, *named,
        [&module, force = order->force](const gpu::Gpu& gpu, MpsManager::Done done) {
          module.manager().Stop(gpu, force, std::move(done));
        });
}

void Terminate(MpsModule& module, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsTermination>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  module.manager().Terminate(order->pid, [&module, exchange](base::Result<Notes> done) {
    if (!done) return SendError(exchange, done.error());
    ShowMps(module, exchange, *done);
  });
}

}  // namespace

void MpsModule::AddRoutes(http::Router& router) {
  const auto those_who = [this](Act act, void (*handle)(MpsModule&, const ExchangePtr&)) {
    return WhenReady(core_, act, [this, handle](const ExchangePtr& exchange) { handle(*this, exchange); });
  };
  router.Add("GET", "/v1/mps", those_who(Act::kSee, [](MpsModule& module, const ExchangePtr& exchange) {
               ShowMps(module, exchange, {});
             }));
  router.Add("POST", "/v1/mps/start", those_who(Act::kManage, StartMps));
  router.Add("POST", "/v1/mps/stop", those_who(Act::kManage, StopMps));
  router.Add("POST", "/v1/mps/limit", those_who(Act::kManage, LimitMps));
  router.Add("POST", "/v1/mps/terminate", those_who(Act::kManage, Terminate));
}

}  // namespace gpuman::daemon
