// The messages about jobs and events: their receivers, their stored form and their text.
//
// Pure functions and plain values; thread-compatible. Times are wall times, because they are for people, and
// because messages are kept over restarts of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "base/words.h"

namespace gpuman::notify {

enum class ChannelKind { kWebhook, kMail };
constexpr auto WordsOf(ChannelKind) {
  return base::Words<ChannelKind, 2>{{{ChannelKind::kWebhook, "webhook"}, {ChannelKind::kMail, "mail"}}};
}

// One message to one receiver.
struct OutboxMessage {
  std::int64_t number = 0;  // numbers grow; a number is never used again
  std::string delivery;     // the id that the receiver sees, the same in each attempt
  std::string user;         // the user who gets the message; empty: the administrators
  std::optional<std::int64_t> job;
  ChannelKind channel = ChannelKind::kWebhook;
  std::string target;   // URL, or mail address
  std::string event;    // started, finished, …; for the administrators, the kind of the event
  std::string content;  // JSON, or a mail without its From
  base::WallTime made{};
  int attempts = 0;
  base::WallTime next{};  // no attempt before then
  bool failed = false;    // gpuman makes no more attempts
  std::string problem;    // of the last attempt
  friend bool operator==(const OutboxMessage&, const OutboxMessage&) = default;
};

// The stored form: one JSON object. Strings that are not UTF-8 are repaired.
std::string SerializeMessage(const OutboxMessage& message);
// nullopt: neither this version's SerializeMessage nor an older one wrote the text.
std::optional<OutboxMessage> ParseMessage(std::int64_t number, std::string_view text);

// The word with which users ask for a notice: "started" for "job_started". nullopt: no user is notified of
// it.
std::optional<std::string_view> WordOf(std::string_view notice);
// Whether a user who asked for `words` is notified of `word`. Empty `words`: the user is notified of each end
// of a job.
bool IsWanted(const std::vector<std::string>& words, std::string_view word);

// The content of a notification. Strings may have any bytes, because they come from users.
struct Notification {
  std::string event;
  std::string message;               // a sentence
  std::vector<std::string> notes{};  // of the job's last run, sentences
  std::string host;                  // this machine's name
  base::WallTime at{};
  std::optional<std::int64_t> job;
  std::string name;  // of the job
  std::string user;
  std::string project;
  // Empty: only the data of an event is known (the job's id and name, and a GPU).
  std::string state;
  std::optional<std::string> reason;
  std::optional<int> exit_code, signal;
  std::vector<std::string> gpus;
  std::optional<base::WallTime> submitted, started, ended;
  std::optional<std::int64_t> array;
  std::optional<std::int64_t> task;
};

// The body of a webhook: one JSON object, as docs/notifications.md describes it. The body is at most some KiB
// long.
std::string BodyOf(const Notification& notification, const std::string& delivery);

// A mail (RFC 5322) in ASCII; its lines end with CRLF. It has no header From: the sender puts that header in
// front. No text in `notification` can add or end a header. Only for a notification of a job.
std::string MailOf(const Notification& notification, const std::string& delivery, const std::string& to);

}  // namespace gpuman::notify
