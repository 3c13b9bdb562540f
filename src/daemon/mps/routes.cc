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

void ShowMps(MpsModule& mps, const ExchangePtr& exchange, const Notes& notes) {
  mps.manager().Refresh([&mps, exchange, notes] {
    SendJson(exchange, api::Encode(MpsReportOf(mps.manager(), mps.Context(), notes)));
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

void Work(MpsModule& mps, const ExchangePtr& exchange, const std::shared_ptr<Orders>& orders) {
  if (orders->next == orders->gpus.size()) return ShowMps(mps, exchange, orders->notes);
  const auto& gpu = orders->gpus[orders->next++];
  orders->order(gpu, [&mps, exchange, orders](base::Result<Notes> done) {
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
    Work(mps, exchange, orders);
  });
}

base::Result<std::vector<gpu::Gpu>> GpusFor(MpsModule& mps, const std::vector<std::string>& named) {
  const auto& all = mps.core().whole_gpus().gpus;
  if (all.empty())
    return base::Fail(base::ErrorCode::kUnavailable, "there are no GPUs: " + mps.core().whole_gpus().problem);
  return named.empty() ? all : gpu::SelectAll(all, named);
}

// Shared by the orders of one request, which are carried out one after the other.
void Order(MpsModule& mps, const ExchangePtr& exchange, const std::vector<std::string>& named, OrderOne order,
           OrderOne undo = {}) {
  auto gpus = GpusFor(mps, named);
  if (!gpus) return SendError(exchange, gpus.error());
  Work(mps, exchange,
       std::make_shared<Orders>(Orders{std::move(*gpus), std::move(order), std::move(undo), {}, 0}));
}

// None named: those where it runs.
base::Result<std::vector<std::string>> Running(MpsModule& mps, std::vector<std::string> named) {
  if (!named.empty()) return named;
  for (const auto& gpu : mps.core().whole_gpus().gpus)
    if (mps.manager().units().contains(gpu.uuid)) named.push_back(gpu.uuid);
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
base::Result<> CheckAll(MpsModule& mps, const api::MpsOrder& order) {
  GPUMAN_ASSIGN(const auto gpus, GpusFor(mps, order.gpus));
  for (const auto& gpu : gpus) GPUMAN_TRY(LimitsOn(gpu, order));
  return {};
}

void StartMps(MpsModule& mps, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsOrder>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  if (auto fine = CheckAll(mps, *order); !fine) return SendError(exchange, fine.error());
  for (const auto& gpu : GpusFor(mps, order->gpus).value_or(std::vector<gpu::Gpu>{}))
    if (auto may = mps.manager().MayStart(gpu); !may) return SendError(exchange, may.error());
  Order(
      mps, exchange, order->gpus,
      [&mps, order = *order](const gpu::Gpu& gpu, MpsManager::Done done) {
        mps.manager().Start(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
      },
      [&mps](const gpu::Gpu& gpu, MpsManager::Done done) {
        mps.manager().Stop(gpu, false, std::move(done));
      });
}

void LimitMps(MpsModule& mps, const ExchangePtr& exchange) {
  auto order = api::Decode<api::MpsOrder>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  if (!order->threads && !order->memory)
    return SendError(exchange, {base::ErrorCode::kInvalidArgument, "there is no limit to set",
                                "give --threads 50% or --memory 8GiB"});
  auto running = Running(mps, std::move(order->gpus));
  if (!running) return SendError(exchange, running.error());
  order->gpus = std::move(*running);
  if (auto fine = CheckAll(mps, *order); !fine) return SendError(exchange, fine.error());
  Order(mps, exchange, order->gpus, [&mps, order = *order](const gpu::Gpu& gpu, MpsManager::Done done) {
    mps.manager().Limit(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
  });
}

void StopMps(MpsModule& mps, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsStop>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  const auto named = Running(mps, order->gpus);
  if (!named) return SendError(exchange, named.error());
  Order(mps, exchange, *named, [&mps, force = order->force](const gpu::Gpu& gpu, MpsManager::Done done) {
    mps.manager().Stop(gpu, force, std::move(done));
  });
}

void Terminate(MpsModule& mps, const ExchangePtr& exchange) {
  const auto order = api::Decode<api::MpsTermination>(exchange->request().body);
  if (!order) return SendError(exchange, order.error());
  mps.manager().Terminate(order->pid, [&mps, exchange](base::Result<Notes> done) {
    if (!done) return SendError(exchange, done.error());
    ShowMps(mps, exchange, *done);
  });
}

}  // namespace

void MpsModule::AddRoutes(http::Router& router) {
  const auto those_who = [this](Act act, void (*handle)(MpsModule&, const ExchangePtr&)) {
    return WhenReady(core_, act, [this, handle](const ExchangePtr& exchange) { handle(*this, exchange); });
  };
  router.Add("GET", "/v1/mps", those_who(Act::kSee, [](MpsModule& mps, const ExchangePtr& exchange) {
               ShowMps(mps, exchange, {});
             }));
  router.Add("POST", "/v1/mps/start", those_who(Act::kManage, StartMps));
  router.Add("POST", "/v1/mps/stop", those_who(Act::kManage, StopMps));
  router.Add("POST", "/v1/mps/limit", those_who(Act::kManage, LimitMps));
  router.Add("POST", "/v1/mps/terminate", those_who(Act::kManage, Terminate));
}

}  // namespace gpuman::daemon
