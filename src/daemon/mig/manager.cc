#include "daemon/mig/manager.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "daemon/core/core.h"
#include "mig/record.h"

namespace gpuman::daemon {
namespace {

//   "mig/GPU-…"     {"enabled":true,"instances":["3g.71gb"],"v":1}
constexpr std::string_view kMigKey = "mig/";

std::string TextOf(const mig::WantedLayout& wanted) {
  if (!wanted.enabled) return "MIG mode off";
  if (wanted.items.empty()) return "MIG mode on, no instances";
  std::vector<std::string> items;
  for (const auto& item : wanted.items) items.push_back(mig::FormatItem(item));
  return fmt::format("{}", fmt::join(items, " "));
}

}  // namespace

MigManager::MigManager(Core& core, std::function<std::set<pid_t>()> own, std::function<void()> on_split)
    : core_(core),
      own_(std::move(own)),
      on_split_(std::move(on_split)),
      executor_(driver::NvmlExecutor::Order::kInOrder,
                [&core](std::function<void()> then) { boost::asio::post(core.loop(), std::move(then)); }),
      questions_([this](std::vector<Question> questions, std::function<void()> done) {
        Ask(std::move(questions), std::move(done));
      }),
      timer_(core.loop()) {}

void MigManager::Recall(const jobs::SettingRows& settings) {
  for (const auto& [key, text] : settings) {
    if (!text || !key.starts_with(kMigKey)) continue;
    auto wanted = mig::ParseRecord(*text);
    if (!wanted) {
      spdlog::warn("{}: {}", key, wanted.error().message);
      continue;
    }
    wanted_[key.substr(kMigKey.size())] = std::move(*wanted);
  }
}

void MigManager::SetPeriod(base::Millis period) {
  period_ = period;
  Wait();
}

void MigManager::Wait() {
  timer_.expires_after(period_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    Check();
    Wait();
  });
}

void MigManager::Read(std::vector<gpu::Gpu> gpus, std::function<void(const std::vector<MigReading>&)> then,
                      IsCancelled is_cancelled) {
  const auto readings =
      std::make_shared<std::vector<MigReading>>();  // shared by the thread's work and the loop's
  questions_.Add({[readings, gpus = std::move(gpus)](MigLook& look) { *readings = ReadAll(look, gpus); },
                  [readings, then = std::move(then)] { then(*readings); }, std::move(is_cancelled)});
}

void MigManager::Plan(std::vector<MigOrder> orders, Answer then, IsCancelled is_cancelled) {
  const auto plans = std::make_shared<base::Result<std::vector<MigOutcome>>>();  // as above
  questions_.Add({[plans, orders = std::move(orders)](MigLook& look) { *plans = PlanOrders(look, orders); },
                  [plans, then = std::move(then)] { then(std::move(*plans)); }, std::move(is_cancelled)});
}

// The thread may destroy its part last, so that part owns nothing of the requests.
void MigManager::Ask(std::vector<Question> questions, std::function<void()> done) {
  std::vector<std::function<void(MigLook&)>> asks;
  for (auto& question : questions) asks.push_back(std::move(question.ask));
  executor_.Run(
      [asks = std::move(asks)](const driver::LoadedNvml& nvml) {
        MigLook look(nvml);
        for (const auto& ask : asks) ask(look);
      },
      [questions = std::move(questions), done = std::move(done)] {
        for (const auto& question : questions)
          if (!base::IsCancelled(question)) question.then();
        done();
      });
}

void MigManager::Apply(std::vector<MigOrder> orders, MigHolders holders, bool forget, Answer then) {
  const auto done = std::make_shared<base::Result<std::vector<MigOutcome>>>();  // as above
  ++applying_;
  executor_.Run([done, orders = std::move(orders), obstacles = MigObstacles{std::move(holders), own_()}](
                    const driver::LoadedNvml& nvml) { *done = ApplyOrders(nvml, orders, obstacles); },
                [this, done, forget, then = std::move(then)] {
                  --applying_;
                  if (!*done) return then(std::move(*done));
                  Keep(std::move(**done), forget, then);
                });
}

void MigManager::Keep(std::vector<MigOutcome> outcomes, bool forget, Answer then) {
  jobs::SettingRows entries;
  for (const auto& outcome : outcomes) {
    if (!outcome.done) continue;
    reported_.erase(outcome.gpu.uuid);
    if (outcome.needs_reset.empty()) split_[outcome.gpu.uuid] = outcome.wanted.enabled;
    const std::string key = std::string(kMigKey) + outcome.gpu.uuid;
    if (forget) {
      wanted_.erase(outcome.gpu.uuid);
      entries[key] = std::nullopt;
    } else {
      wanted_[outcome.gpu.uuid] = outcome.wanted;
      entries[key] = mig::SerializeRecord(outcome.wanted);
    }
    if (!outcome.needs_reset.empty())
      Tell(outcome.gpu, "mig_needs_reset", outcome.needs_reset);
    else if (!outcome.plan.steps.empty())
      Tell(outcome.gpu, "mig_changed", TextOf(outcome.wanted));
  }
  if (entries.empty()) return then(std::move(outcomes));
  on_split_();
  core_.Keep(std::move(entries), [outcomes = std::move(outcomes),
                                  then = std::move(then)](base::Result<> written) mutable {
    if (!written)
      return then(base::Fail(std::move(written.error()).In("it is done, and will not outlast a reset")));
    then(std::move(outcomes));
  });
}

const mig::WantedLayout* MigManager::WantedOf(const std::string& uuid) const {
  const auto it = wanted_.find(uuid);
  return it == wanted_.end() ? nullptr : &it->second;
}

void MigManager::Check() {
  if (checking_ || applying_ > 0) return;
  const auto& gpus = core_.whole_gpus().gpus;
  if (gpus.empty()) has_looked_ = true;
  if (gpus.empty()) return;
  std::vector<MigOrder> orders;
  for (const auto& gpu : gpus)
    if (const auto* wanted = WantedOf(gpu.uuid); wanted && wanted->enabled)
      orders.push_back({gpu, {}, *wanted});
  checking_ = true;
  const auto check = std::make_shared<MigRestoreResult>();  // shared by the thread's work and the loop's
  executor_.Run([check, gpus, orders = std::move(orders), own = own_()](
                    const driver::LoadedNvml& nvml) { *check = CheckGpus(nvml, gpus, orders, own); },
                [this, check] { OnChecked(*check); });
}

void MigManager::OnChecked(const MigRestoreResult& check) {
  checking_ = false;
  OnRestored(check.lost);
  const bool is_news = !has_looked_ || split_ != check.split;
  has_looked_ = true;
  split_ = check.split;
  if (is_news) on_split_();
}

void MigManager::OnRestored(const std::vector<MigOutcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    const auto& uuid = outcome.gpu.uuid;
    if (outcome.done && outcome.needs_reset.empty()) {
      reported_.erase(uuid);
      Tell(outcome.gpu, "mig_restored", TextOf(outcome.wanted));
      continue;
    }
    const bool waits = outcome.error && outcome.error->code == base::ErrorCode::kConflict;
    const std::string text = outcome.error ? outcome.error->message : outcome.needs_reset;
    if (std::exchange(reported_[uuid], text) == text) continue;
    Tell(outcome.gpu, waits ? "mig_waits" : outcome.error ? "mig_failed" : "mig_needs_reset", text);
  }
}

void MigManager::Tell(const gpu::Gpu& gpu, const char* kind, const std::string& text) {
  core_.AddGpuEvent(kind, gpu.uuid, fmt::format("GPU {}: {}", gpu.index, text));
}

}  // namespace gpuman::daemon
