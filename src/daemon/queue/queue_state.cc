#include "daemon/queue/queue_state.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json_number.h"

namespace gpuman::daemon {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kState = "queue", kIgnore = "ignore/", kQuota = "quota/",
                           kReservation = "reservation/";

template <typename T>
void Put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}
template <typename T>
void Get(const Json& json, const char* name, std::optional<T>& value) {
  if (const auto it = json.find(name); it != json.end()) value = base::Checked<T>(*it);
}

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::optional<std::int64_t> NumberOf(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

QueueState StateFrom(const Json& json) {
  QueueState state;
  if (const auto choice = queue::ParseChoice(json.value("choice", "sequential"))) state.choice = *choice;
  state.paused = json.value("paused", false);
  if (const auto it = json.find("allowed"); it != json.end())
    state.allowed = it->get<std::set<std::string>>();
  if (const auto it = json.find("drained"); it != json.end())
    state.drained = it->get<std::set<std::string>>();
  return state;
}

IgnoreRule RuleFrom(std::int64_t id, const Json& json) {
  IgnoreRule rule;
  rule.id = id;
  if (json.contains("pid"))
    rule.process = base::ProcessId{base::Checked<pid_t>(json.at("pid")),
                                   base::Checked<std::uint64_t>(json.at("start_time"))};
  Get(json, "user", rule.user);
  Get(json, "name", rule.name);
  Get(json, "gpu", rule.gpu);
  return rule;
}

api::QuotaLimits LimitsFrom(const Json& json) {
  api::QuotaLimits limits;
  Get(json, "running_jobs", limits.running_jobs);
  Get(json, "gpus", limits.gpus);
  Get(json, "queued_jobs", limits.queued_jobs);
  Get(json, "gpu_hours", limits.gpu_hours);
  Get(json, "shares", limits.shares);
  return limits;
}

api::Reservation ReservationFrom(std::int64_t id, const Json& json) {
  api::Reservation reservation;
  reservation.id = id;
  reservation.user = json.at("user").get<std::string>();
  reservation.count = base::Checked<int>(json.at("count"));
  reservation.devices = json.at("devices").get<std::vector<std::string>>();
  reservation.start = base::WallTime(base::Millis(base::Checked<std::int64_t>(json.at("start"))));
  reservation.end = base::WallTime(base::Millis(base::Checked<std::int64_t>(json.at("end"))));
  Get(json, "by", reservation.created_by);
  return reservation;
}

void Read(QueueBooks& books, std::string_view key, const Json& json) {
  const auto rest = [&](std::string_view prefix) { return key.substr(prefix.size()); };
  if (key == kState) {
    auto ignored = std::move(books.state.ignored);
    books.state = StateFrom(json);
    books.state.ignored = std::move(ignored);
  } else if (key.starts_with(kIgnore)) {
    const auto id = NumberOf(rest(kIgnore)).value_or(0);
    books.state.ignored.push_back(RuleFrom(id, json));
    books.last_number = std::max(books.last_number, id);
  } else if (key.starts_with(kReservation)) {
    const auto id = NumberOf(rest(kReservation)).value_or(0);
    books.reservations[id] = ReservationFrom(id, json);
    books.last_number = std::max(books.last_number, id);
  } else if (key.starts_with(kQuota)) {
    const auto name = rest(kQuota);
    const auto slash = name.find('/');
    if (slash == std::string_view::npos) return;
    books.quotas[{std::string(name.substr(0, slash)), std::string(name.substr(slash + 1))}] =
        LimitsFrom(json);
  }
}

}  // namespace

QueueBooks ReadBooks(const jobs::SettingRows& settings) {
  QueueBooks books;
  for (const auto& [key, value] : settings) {
    if (!value) continue;
    try {
      Read(books, key, Json::parse(*value));
    } catch (const Json::exception&) {
      continue;
    }
  }
  return books;
}

jobs::SettingRows::value_type Entry(const QueueState& state) {
  Json json{{"choice", ToString(state.choice)}, {"paused", state.paused}};
  if (state.allowed) json["allowed"] = *state.allowed;
  if (!state.drained.empty()) json["drained"] = state.drained;
  return {std::string(kState), Text(json)};
}

jobs::SettingRows::value_type Entry(const IgnoreRule& rule) {
  Json json = Json::object();
  if (rule.process) {
    json["pid"] = rule.process->pid;
    json["start_time"] = rule.process->start_time;
  }
  Put(json, "user", rule.user);
  Put(json, "name", rule.name);
  Put(json, "gpu", rule.gpu);
  return {KeyOf(rule), Text(json)};
}

jobs::SettingRows::value_type Entry(const QuotaKey& key, const api::QuotaLimits& limits) {
  Json json = Json::object();
  Put(json, "running_jobs", limits.running_jobs);
  Put(json, "gpus", limits.gpus);
  Put(json, "queued_jobs", limits.queued_jobs);
  Put(json, "gpu_hours", limits.gpu_hours);
  Put(json, "shares", limits.shares);
  return {KeyOf(key), Text(json)};
}

jobs::SettingRows::value_type Entry(const api::Reservation& reservation) {
  Json json{{"user", reservation.user},
            {"count", reservation.count},
            {"devices", reservation.devices},
            {"start", reservation.start.time_since_epoch().count()},
            {"end", reservation.end.time_since_epoch().count()}};
  Put(json, "by", reservation.created_by);
  return {KeyOfReservation(reservation.id), Text(json)};
}

std::string KeyOf(const IgnoreRule& rule) { return fmt::format("{}{}", kIgnore, rule.id); }
std::string KeyOf(const QuotaKey& key) { return fmt::format("{}{}/{}", kQuota, key.subject, key.name); }
std::string KeyOfReservation(std::int64_t id) { return fmt::format("{}{}", kReservation, id); }

}  // namespace gpuman::daemon
