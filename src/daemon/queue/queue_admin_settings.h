// Turns the administrators' settings of the running queue (state, ignore rules, quotas, reservations) into
// setting rows of the store, one text each, and back. Pure; never throws.
//
//   "queue"                  {"choice":"sequential","paused":false,"allowed":["GPU-…"],"drained":["GPU-…"],
//                             "drained_by":{"GPU-…":"root"}}
//   "ignore/3"               {"pid":1,"start_time":2,"user":"ann","name":"python","gpu":"GPU-…"}
//   "quota/user/ann"         {"running_jobs":1,"gpus":2,"queued_jobs":3,"gpu_hours":4.5,"shares":2}
//   "reservation/5"          {"user":"ann","count":2,"devices":["GPU-…"],"start":…,"end":…,"by":"root"}
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "daemon/queue/dispatcher.h"
#include "jobs/store.h"

namespace gpuman::daemon {

// A user or a project. The name "*" stands for each that has no limits of its own.
struct QuotaKey {
  std::string subject;  // "user", "project"
  std::string name;
  friend auto operator<=>(const QuotaKey&, const QuotaKey&) = default;
};

struct QueueAdminSettings {
  QueueControlState state;
  std::map<QuotaKey, api::QuotaLimits> quotas;
  std::map<std::int64_t, api::Reservation> reservations;
  std::int64_t last_number = 0;  // of rules and reservations
};

// Entries that cannot be read are left out.
QueueAdminSettings ReadQueueAdminSettings(const jobs::SettingRows& settings);

jobs::SettingRows::value_type Entry(const QueueControlState& state);
jobs::SettingRows::value_type Entry(const IgnoreRule& rule);
jobs::SettingRows::value_type Entry(const QuotaKey& key, const api::QuotaLimits& limits);
jobs::SettingRows::value_type Entry(const api::Reservation& reservation);
// The name of the setting row of each.
std::string KeyOf(const IgnoreRule& rule);
std::string KeyOf(const QuotaKey& key);
std::string KeyOfReservation(std::int64_t id);

}  // namespace gpuman::daemon
