// MPS: its servers and clients on each GPU, and orders to it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/mps/module.h"
#include "daemon/mps/views.h"

namespace gpuman::daemon {
namespace {

using Notes = MpsManager::Notes;

// The answer to an order: notes on what was done, or the error.
using WhenDone = std::function<void(base::Result<Notes>)>;

// The answer to an order.
template <typename Body>
void SendReport(MpsModule& mps, const Call<Body, api::MpsReport>& call, const Notes& notes) {
  mps.manager().Refresh([&mps, call, notes] { call.Send(MpsReportOf(mps.manager(), mps.Context(), notes)); });
}

template <typename Body>
WhenDone AnswerTo(MpsModule& mps, const Call<Body, api::MpsReport>& call) {
  return call.After([&mps, call](const Notes& notes) { SendReport(mps, call, notes); });
}

void ShowMps(MpsModule& mps, const Call<api::NoBody, api::MpsReport>& call) {
  mps.AddReader({[call](const api::MpsReport& report) { call.Send(report); },
                 [exchange = call.exchange()] { return exchange->Gone(); }});
}

// Gives one order for each GPU, one after the other. If an order is refused, `undo` takes back the orders
// before it, and the refusal is the answer. Without `undo` the earlier orders stay.
using OrderOne = std::function<void(const gpu::Gpu&, MpsManager::Done)>;
struct Orders {
  std::vector<gpu::Gpu> gpus;
  OrderOne order, undo;
  WhenDone answer;
  Notes notes{};
  std::size_t next = 0;
};

void TakeBack(const std::shared_ptr<Orders>& orders, base::Error error) {
  if (orders->next == 0) return orders->answer(base::Fail(std::move(error)));
  const auto& gpu = orders->gpus[--orders->next];
  orders->undo(gpu, [orders, index = gpu.index, error](const base::Result<Notes>& undone) mutable {
    error.message += undone ? fmt::format("; GPU {}: stopped again", index)
                            : fmt::format("; GPU {}: it runs, and could not be stopped again: {}", index,
                                          undone.error().message);
    TakeBack(orders, std::move(error));
  });
}

void Work(const std::shared_ptr<Orders>& orders) {
  if (orders->next == orders->gpus.size()) return orders->answer(orders->notes);
  const auto& gpu = orders->gpus[orders->next++];
  orders->order(gpu, [orders](base::Result<Notes> done) {
    if (!done) {
      auto error = std::move(done.error());
      --orders->next;
      if (orders->undo) return TakeBack(orders, std::move(error));
      if (orders->next > 0)
        error.message += fmt::format("; it was done on {} of {} GPUs", orders->next, orders->gpus.size());
      return orders->answer(base::Fail(std::move(error)));
    }
    for (auto& note : *done)
      if (std::find(orders->notes.begin(), orders->notes.end(), note) == orders->notes.end())
        orders->notes.push_back(std::move(note));
    Work(orders);
  });
}

base::Result<std::vector<gpu::Gpu>> GpusFor(MpsModule& mps, const std::vector<std::string>& named) {
  const auto& all = mps.core().whole_gpus().gpus;
  if (all.empty())
    return base::Fail(base::ErrorCode::kUnavailable, "there are no GPUs: " + mps.core().whole_gpus().problem);
  return named.empty() ? all : gpu::SelectAll(all, named);
}

// Carries out the orders of one request, one after the other.
base::Result<> Order(MpsModule& mps, const std::vector<std::string>& named, WhenDone answer, OrderOne order,
                     OrderOne undo = {}) {
  GPUMAN_ASSIGN(auto gpus, GpusFor(mps, named));
  Work(std::make_shared<Orders>(
      Orders{std::move(gpus), std::move(order), std::move(undo), std::move(answer)}));
  return {};
}

// The GPUs where MPS runs, if the caller names none.
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

// Checks the limits of all GPUs before anything is done on the first one.
base::Result<> CheckAll(MpsModule& mps, const api::MpsOrder& order) {
  GPUMAN_ASSIGN(const auto gpus, GpusFor(mps, order.gpus));
  for (const auto& gpu : gpus) GPUMAN_TRY(LimitsOn(gpu, order));
  return {};
}

using OrderCall = Call<api::MpsOrder, api::MpsReport>;

base::Result<> StartMps(MpsModule& mps, const OrderCall& call) {
  const api::MpsOrder& order = call.body();
  GPUMAN_TRY(CheckAll(mps, order));
  GPUMAN_ASSIGN(const auto gpus, GpusFor(mps, order.gpus));
  for (const auto& gpu : gpus) GPUMAN_TRY(mps.manager().MayStart(gpu));
  return Order(
      mps, order.gpus, AnswerTo(mps, call),
      [&mps, order](const gpu::Gpu& gpu, MpsManager::Done done) {
        mps.manager().Start(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
      },
      [&mps](const gpu::Gpu& gpu, MpsManager::Done done) {
        mps.manager().Stop(gpu, /*force=*/false, std::move(done));
      });
}

base::Result<> LimitMps(MpsModule& mps, const OrderCall& call) {
  api::MpsOrder order = call.body();
  if (!order.threads && !order.memory)
    return base::Fail(base::ErrorCode::kInvalidArgument, "there is no limit to set",
                      "give --threads 50% or --memory 8GiB");
  GPUMAN_ASSIGN(order.gpus, Running(mps, std::move(order.gpus)));
  GPUMAN_TRY(CheckAll(mps, order));
  return Order(mps, order.gpus, AnswerTo(mps, call),
               [&mps, order](const gpu::Gpu& gpu, MpsManager::Done done) {
                 mps.manager().Limit(gpu, LimitsOn(gpu, order).value_or(mps::Limits{}), std::move(done));
               });
}

base::Result<> StopMps(MpsModule& mps, const Call<api::MpsStop, api::MpsReport>& call) {
  GPUMAN_ASSIGN(const auto named, Running(mps, call.body().gpus));
  return Order(mps, named, AnswerTo(mps, call),
               [&mps, force = call.body().force](const gpu::Gpu& gpu, MpsManager::Done done) {
                 mps.manager().Stop(gpu, force, std::move(done));
               });
}

void Terminate(MpsModule& mps, const Call<api::MpsTermination, api::MpsReport>& call) {
  mps.manager().Terminate(call.body().pid, AnswerTo(mps, call));
}

}  // namespace

void MpsModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kMps, ShowMps);
  serve(api::routes::kStartMps, StartMps);
  serve(api::routes::kStopMps, StopMps);
  serve(api::routes::kLimitMps, LimitMps);
  serve(api::routes::kTerminateMps, Terminate);
}

}  // namespace gpuman::daemon
