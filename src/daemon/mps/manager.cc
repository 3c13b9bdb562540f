#include "daemon/mps/manager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <utility>

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

//   "mps/GPU-…": mps/record.h
constexpr std::string_view kMpsKey = "mps/";
std::string MpsKeyOf(const std::string& uuid) { return std::string(kMpsKey) + uuid; }

}  // namespace

MpsManager::MpsManager(boost::asio::io_context& loop, const base::Clock& clock,
                       const base::ProcessTable& table, MpsHost& host, std::filesystem::path root,
                       std::string boot)
    : loop_(loop),
      clock_(clock),
      table_(table),
      host_(host),
      root_(std::move(root)),
      boot_(std::move(boot)),
      timer_(loop) {}

MpsManager::~MpsManager() { worker_.join(); }

void MpsManager::Aside(std::function<void()> work, std::function<void()> then) {
  boost::asio::post(worker_, [this, work = std::move(work), then = std::move(then)]() mutable {
    work();
    boost::asio::post(loop_, std::move(then));
  });
}

void MpsManager::SetSettings(const MpsSettings& settings) {
  settings_ = settings;
  Tick();
}

Result<std::filesystem::path> MpsManager::Program() const {
  if (!settings_.control.empty()) return std::filesystem::path(settings_.control);
  const char* const path = std::getenv("PATH");
  return mps::FindControl(path ? path : "/usr/local/bin:/usr/bin:/bin");
}

// Shared between the loop and the order that runs on the worker.
Result<std::shared_ptr<mps::Control>> MpsManager::MakeControl() const {
  GPUMAN_ASSIGN(auto program, Program());
  return std::make_shared<mps::Control>(std::move(program), root_, table_);
}

bool MpsManager::IsRunning(const std::string& uuid) const {
  const auto it = units_.find(uuid);
  return it != units_.end() && it->second.state == MpsState::kRunning;
}

std::optional<mps::ControlProcess> MpsManager::RivalOn(const std::string& uuid) const {
  return mps::RivalFor(controls_, root_, uuid);
}

void MpsManager::Keep(const std::string& uuid) {
  const auto it = units_.find(uuid);
  host_.KeepMps(
      {{MpsKeyOf(uuid),
        it == units_.end() ? std::nullopt : std::optional(mps::SerializeRecord(it->second.record))}});
}

void MpsManager::Recall(const jobs::SettingRows& settings) {
  for (const auto& [key, text] : settings) {
    if (!text || !key.starts_with(kMpsKey)) continue;
    const auto record = mps::ParseRecord(*text);
    if (!record) {
      spdlog::warn("{}: {}", key, record.error().message);
      continue;
    }
    const auto uuid = key.substr(kMpsKey.size());
    MpsUnit& unit = units_[uuid];
    unit.record = *record;
    if (record->boot == boot_ && record->control.pid != 0 && base::IsAlive(record->control)) {
      unit.watch.Reset(!record->changed);
      Adopt(uuid, record->control);
      continue;
    }
    const bool was_alive = record->control.pid != 0;
    unit.state = MpsState::kDead;
    unit.problem = record->boot == boot_ ? "its control daemon ended while gpumand was away"
                                         : "the machine was started anew";
    unit.record.control = {};
    Keep(uuid);
    if (was_alive)
      host_.TellMps("mps_died", uuid, "the MPS of this GPU does not run any more: " + unit.problem, {});
  }
  Tick();
}

void MpsManager::Adopt(const std::string& uuid, base::ProcessId control) {
  MpsUnit& unit = units_.at(uuid);
  auto process = base::OpenProcess(control);
  if (!process) return OnEnded(uuid);
  unit.state = MpsState::kRunning;
  unit.problem.clear();
  unit.record.control = control;
  unit.record.boot = boot_;
  ends_.erase(uuid);
  auto& end =
      ends_.emplace(uuid, boost::asio::posix::stream_descriptor(loop_, process->Release())).first->second;
  end.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                 [this, uuid](boost::system::error_code error) {
                   if (!error) OnEnded(uuid);
                 });
}

// Of a daemon that was told to stop, the order's end says the rest.
void MpsManager::OnEnded(const std::string& uuid) {
  const auto it = units_.find(uuid);
  ends_.erase(uuid);
  if (it == units_.end() || it->second.state == MpsState::kStopping) return;
  MpsUnit& unit = it->second;
  std::string clients;
  for (const auto& server : unit.watch.servers())
    for (const auto& client : server.clients)
      clients += (clients.empty() ? "" : ", ") + host_.DescribeMpsClient(client.pid);
  const auto pid = unit.record.control.pid;
  unit.state = MpsState::kDead;
  unit.problem = fmt::format("its control daemon (pid {}) ended, and nobody told it to", pid);
  unit.record.control = {};
  unit.watch.Reset();
  Keep(uuid);
  host_.TellMps("mps_died", uuid,
                fmt::format("the MPS control daemon (pid {}) of this GPU ended, and nobody told it to{}", pid,
                            clients.empty() ? "" : "; its clients were " + clients),
                {{"pid", pid}});
}

void MpsManager::Refresh(std::function<void()> then) {
  const auto control = MakeControl();
  struct Round {
    std::vector<mps::ControlProcess> controls;
    std::map<std::string, Seen> seen;
  };
  const auto round = std::make_shared<Round>();  // worker to loop
  for (const auto& [uuid, unit] : units_)
    if (control && unit.state == MpsState::kRunning) round->seen[uuid].on_gpu = host_.MpsProcessesOn(uuid);
  Aside(
      [this, control, round] {
        round->controls = mps::FindControls(table_);
        for (auto& [uuid, seen] : round->seen) seen.servers = (*control)->Servers(uuid);
      },
      [this, round, then = std::move(then)] {
        controls_ = std::move(round->controls);
        for (const auto& [uuid, seen] : round->seen) Take(uuid, seen);
        then();
      });
}

void MpsManager::Take(const std::string& uuid, const Seen& seen) {
  const auto it = units_.find(uuid);
  if (it == units_.end() || it->second.state != MpsState::kRunning) return;
  MpsUnit& unit = it->second;
  unit.problem = seen.servers ? "" : seen.servers.error().message;
  if (!seen.servers) return;
  for (const auto& notice : unit.watch.On({*seen.servers, seen.on_gpu})) {
    if (notice.kind == mps::Notice::Kind::kOutside) {
      host_.TellMps(
          "mps_outside", uuid,
          fmt::format("{} uses this GPU and is no client of its MPS server: none of the server's limits "
                      "holds for it",
                      host_.DescribeMpsClient(notice.pid)),
          {{"pid", notice.pid}});
      continue;
    }
    std::vector<std::string> clients;
    for (const pid_t pid : notice.clients) clients.push_back(host_.DescribeMpsClient(pid));
    host_.TellMps(
        "mps_server_died", uuid,
        fmt::format("the MPS server (pid {}) of this GPU ended{}; the next client starts a new one",
                    notice.pid,
                    clients.empty() ? std::string()
                                    : fmt::format(", and the work of {} with it", fmt::join(clients, ", "))),
        {{"pid", notice.pid}, {"clients", static_cast<std::int64_t>(clients.size())}});
  }
}

// The next look, as long as there is something to look at.
void MpsManager::Tick() {
  timer_.cancel();
  if (units_.empty()) return;
  timer_.expires_after(settings_.look);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    for (const auto& [uuid, unit] : std::map(units_))
      if (unit.state == MpsState::kDead && settings_.restart)
        Launch(uuid, unit.record.limits, [uuid = uuid](const Result<Notes>& started) {
          if (!started)
            spdlog::warn("the MPS of {} was not started again: {}", uuid, started.error().message);
        });
    Refresh([this] { Tick(); });
  });
}

}  // namespace gpuman::daemon
