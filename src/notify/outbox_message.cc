#include "notify/outbox_message.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace gpuman::notify {
namespace {

// A stored message may come from an older gpuman and lack fields.
constexpr base::json::JsonFormat kStored{.times = base::json::TimeForm::kMillis};
constexpr base::json::JsonFormat kBody{};

constexpr std::size_t kLongestText = 2048;  // of one field of a body

// Shortens the text, but never within a character.
std::string Cut(const std::string& text, std::size_t longest = kLongestText) {
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::vector<std::string> NotesOf(const Notification& notification) {
  constexpr std::size_t kMaxNotes = 4, kLongestNote = 400;
  std::vector<std::string> notes;
  for (const auto& note : notification.notes)
    if (notes.size() < kMaxNotes) notes.push_back(Cut(note, kLongestNote));
  return notes;
}

}  // namespace

template <typename V, base::json::Of<OutboxMessage> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  v.Required("delivery", x.delivery);
  v.Required("user", x.user);
  v.Option("job", x.job);
  v.Required("channel", x.channel);
  v.Required("target", x.target);
  v.Required("event", x.event);
  v.Required("content", x.content);
  v.Required("made_ms", x.made);
  v.Required("attempts", x.attempts);
  v.Required("next_ms", x.next);
  v.Required("failed", x.failed);
  v.Required("problem", x.problem);
}

std::string SerializeMessage(const OutboxMessage& message) { return base::json::ToText(message, kStored); }

std::optional<OutboxMessage> ParseMessage(std::int64_t number, std::string_view text) {
  auto message = base::json::FromText<OutboxMessage>(text, kStored, "a stored message");
  if (!message) return std::nullopt;
  message->number = number;
  return std::move(*message);
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
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& wanted) { return wanted == word || wanted == "all"; });
}

std::string BodyOf(const Notification& notification, const std::string& delivery) {
  base::json::JsonObjectWriter body(kBody);
  body("version", 1);
  body("delivery", delivery);
  body("event", notification.event);
  body("at", notification.at);
  body("host", notification.host);
  body("message", Cut(notification.message));
  if (!notification.state.empty()) body("notes", NotesOf(notification));
  if (notification.state.empty() && !notification.gpus.empty()) body("gpu", notification.gpus.front());
  if (notification.job)
    body.Group("job", [&](auto& job) {
      job("id", *notification.job);
      job("name", Cut(notification.name));
      if (notification.state.empty()) return;
      job("user", notification.user);
      job("project", notification.project.empty() ? std::nullopt : std::optional(Cut(notification.project)));
      job("state", notification.state);
      job("reason", notification.reason);
      job("exit_code", notification.exit_code);
      job("signal", notification.signal);
      job("gpus", notification.gpus);
      job("array_id", notification.array);
      job("array_task", notification.task);
      job("submitted_at", notification.submitted);
      job("started_at", notification.started);
      job("ended_at", notification.ended);
    });
  return base::json::Dump(std::move(body).Take());
}

}  // namespace gpuman::notify
