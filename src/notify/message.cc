#include "notify/message.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_number.h"

namespace gpuman::notify {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestText = 2048;  // of one field of a body

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Does not cut through a character.
std::string Cut(const std::string& text) {
  if (text.size() <= kLongestText) return text;
  std::size_t end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

Json TimeOf(const std::optional<base::WallTime>& time) {
  return time ? Json(base::FormatIso8601(*time)) : Json(nullptr);
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::int64_t MillisOf(base::WallTime time) {
  return static_cast<std::int64_t>(time.time_since_epoch().count());
}

}  // namespace

std::string SerializeMessage(const Message& message) {
  Json json{{"v", 1},
            {"delivery", message.delivery},
            {"user", message.user},
            {"channel", message.channel == Channel::kMail ? "mail" : "webhook"},
            {"target", message.target},
            {"event", message.event},
            {"content", message.content},
            {"made_ms", MillisOf(message.made)},
            {"attempts", message.attempts},
            {"next_ms", MillisOf(message.next)},
            {"failed", message.failed},
            {"problem", message.problem}};
  if (message.job) json["job"] = *message.job;
  return Dump(json);
}

std::optional<Message> ParseMessage(std::int64_t number, std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("v") != 1) return std::nullopt;
    const auto time = [&](const char* name) {
      return base::WallTime(base::Millis(base::Checked<std::int64_t>(json.at(name))));
    };
    Message message;
    message.number = number;
    message.delivery = json.at("delivery").get<std::string>();
    message.user = json.at("user").get<std::string>();
    if (json.contains("job")) message.job = base::Checked<std::int64_t>(json.at("job"));
    const auto channel = json.at("channel").get<std::string>();
    if (channel != "mail" && channel != "webhook") return std::nullopt;
    message.channel = channel == "mail" ? Channel::kMail : Channel::kWebhook;
    message.target = json.at("target").get<std::string>();
    message.event = json.at("event").get<std::string>();
    message.content = json.at("content").get<std::string>();
    message.made = time("made_ms");
    message.attempts = base::Checked<int>(json.at("attempts"));
    message.next = time("next_ms");
    message.failed = json.at("failed").get<bool>();
    message.problem = json.at("problem").get<std::string>();
    return message;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::optional<std::string_view> WordOf(std::string_view notice) {
  if (notice == "job_restarted") return "started";
  constexpr std::array<std::string_view, 8> kWords{"started",   "finished", "failed",    "timeout",
                                                   "cancelled", "killed",   "suspended", "requeued"};
  if (!notice.starts_with("job_")) return std::nullopt;
  const auto* const word = std::find(kWords.begin(), kWords.end(), notice.substr(4));
  if (word == kWords.end()) return std::nullopt;
  return *word;
}

bool IsWanted(const std::vector<std::string>& words, std::string_view word) {
  if (words.empty()) return word != "started" && word != "suspended" && word != "requeued";
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string BodyOf(const Notification& notification, const std::string& delivery) {
  Json json{{"version", 1},
            {"delivery", delivery},
            {"event", notification.event},
            {"at", base::FormatIso8601(notification.at)},
            {"host", notification.host},
            {"message", Cut(notification.message)}};
  if (notification.state.empty() && !notification.gpus.empty()) json["gpu"] = notification.gpus.front();
  if (!notification.job) return Dump(json);
  if (notification.state.empty()) {
    json["job"] = {{"id", *notification.job}, {"name", Cut(notification.name)}};
    return Dump(json);
  }
  json["job"] = {{"id", *notification.job},
                 {"name", Cut(notification.name)},
                 {"user", notification.user},
                 {"project", notification.project.empty() ? Json(nullptr) : Json(Cut(notification.project))},
                 {"state", notification.state},
                 {"reason", OrNull(notification.reason)},
                 {"exit_code", OrNull(notification.exit_code)},
                 {"signal", OrNull(notification.signal)},
                 {"gpus", notification.gpus},
                 {"array_id", OrNull(notification.array)},
                 {"array_task", OrNull(notification.task)},
                 {"submitted_at", TimeOf(notification.submitted)},
                 {"started_at", TimeOf(notification.started)},
                 {"ended_at", TimeOf(notification.ended)}};
  return Dump(json);
}

}  // namespace gpuman::notify
