#include "daemon/queue/queue_admin_settings.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/parse_number.h"

namespace gpuman::daemon {
namespace {

constexpr std::string_view kState = "queue", kIgnore = "ignore/", kQuota = "quota/",
                           kReservation = "reservation/";

constexpr base::json::JsonFormat kFormat{.times = base::json::TimeForm::kMillis};

// The store's form of a value. Clients get the same value in another form.
template <typename T>
struct Stored {
  T value;
};

template <typename T>
std::string Text(const T& value) {
  return base::json::ToText(value, kFormat);
}

template <typename V, base::json::Of<Stored<api::QuotaLimits>> T>
void Fields(V& v, T& x) {
  v.Option("running_jobs", x.value.running_jobs);
  v.Option("gpus", x.value.gpus);
  v.Option("queued_jobs", x.value.queued_jobs);
  v.Option("gpu_hours", x.value.gpu_hours);
  v.Option("shares", x.value.shares);
}

template <typename V, base::json::Of<Stored<api::Reservation>> T>
void Fields(V& v, T& x) {
  v.Required("user", x.value.user);
  v.Required("count", x.value.count);
  v.Required("devices", x.value.devices);
  v.Required("start", x.value.start);
  v.Required("end", x.value.end);
  v.Option("by", x.value.created_by);
}

}  // namespace

template <typename V, base::json::Of<QueueControlState> T>
void Fields(V& v, T& x) {
  v("choice", x.choice);
  v("paused", x.paused);
  v.Option("allowed", x.allowed);
  v.Changed("drained", x.drained);
  v.Changed("drained_by", x.drained_by);
}

template <typename V, base::json::Of<IgnoreRule> T>
void Fields(V& v, T& x) {
  if constexpr (V::kReads) {
    if (v.Has("pid")) Fields(v, x.process.emplace());
  } else if (x.process) {
    Fields(v, *x.process);
  }
  v.Option("user", x.user);
  v.Option("name", x.name);
  v.Option("gpu", x.gpu);
}

namespace {

template <typename T>
std::optional<T> Parsed(std::string_view key, const std::string& text) {
  auto value = base::json::FromText<T>(text, kFormat, key);
  return value ? std::optional(std::move(*value)) : std::nullopt;
}

void Read(QueueAdminSettings& admin, std::string_view key, const std::string& text) {
  const auto rest = [&](std::string_view prefix) { return key.substr(prefix.size()); };
  if (key == kState) {
    auto state = Parsed<QueueControlState>(key, text);
    if (!state) return;
    state->ignored = std::move(admin.state.ignored);
    admin.state = std::move(*state);
  } else if (key.starts_with(kIgnore)) {
    auto rule = Parsed<IgnoreRule>(key, text);
    if (!rule) return;
    rule->id = base::ParseNumber<std::int64_t>(rest(kIgnore)).value_or(0);
    admin.last_number = std::max(admin.last_number, rule->id);
    admin.state.ignored.push_back(std::move(*rule));
  } else if (key.starts_with(kReservation)) {
    auto reservation = Parsed<Stored<api::Reservation>>(key, text);
    if (!reservation) return;
    const auto id = base::ParseNumber<std::int64_t>(rest(kReservation)).value_or(0);
    reservation->value.id = id;
    admin.reservations[id] = std::move(reservation->value);
    admin.last_number = std::max(admin.last_number, id);
  } else if (key.starts_with(kQuota)) {
    const auto name = rest(kQuota);
    const auto slash = name.find('/');
    if (slash == std::string_view::npos) return;
    if (auto limits = Parsed<Stored<api::QuotaLimits>>(key, text))
      admin.quotas[{std::string(name.substr(0, slash)), std::string(name.substr(slash + 1))}] = limits->value;
  }
}

}  // namespace

QueueAdminSettings ReadQueueAdminSettings(const jobs::SettingRows& settings) {
  QueueAdminSettings admin;
  for (const auto& [key, value] : settings)
    if (value) Read(admin, key, *value);
  return admin;
}

jobs::SettingRows::value_type Entry(const QueueControlState& state) {
  return {std::string(kState), Text(state)};
}
jobs::SettingRows::value_type Entry(const IgnoreRule& rule) { return {KeyOf(rule), Text(rule)}; }
jobs::SettingRows::value_type Entry(const QuotaKey& key, const api::QuotaLimits& limits) {
  return {KeyOf(key), Text(Stored<api::QuotaLimits>{limits})};
}
jobs::SettingRows::value_type Entry(const api::Reservation& reservation) {
  return {KeyOfReservation(reservation.id), Text(Stored<api::Reservation>{reservation})};
}

std::string KeyOf(const IgnoreRule& rule) { return fmt::format("{}{}", kIgnore, rule.id); }
std::string KeyOf(const QuotaKey& key) { return fmt::format("{}{}/{}", kQuota, key.subject, key.name); }
std::string KeyOfReservation(std::int64_t id) { return fmt::format("{}{}", kReservation, id); }

}  // namespace gpuman::daemon
