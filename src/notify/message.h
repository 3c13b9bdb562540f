// What is told of a job, to which receivers, and in which words.
//
// Pure functions and plain values; thread-compatible. Times are wall times: they are for people, and messages
// are kept over restarts of the machine.
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

enum class Channel { kWebhook, kMail };
constexpr auto WordsOf(Channel) {
  return base::Words<Channel, 2>{{{Channel::kWebhook, "webhook"}, {Channel::kMail, "mail"}}};
}

// One message to one receiver.
struct Message {
  std::int64_t number = 0;  // grows; never used again
  std::string delivery;     // the id that the receiver sees, the same in each attempt
  std::string user;         // the user whose message it is; empty: the administrators
  std::optional<std::int64_t> job;
  Channel channel = Channel::kWebhook;
  std::string target;   // URL, or mail address
  std::string event;    // started, finished, …; for the administrators an event's kind
  std::string content;  // JSON, or a mail without its From
  base::WallTime made{};
  int attempts = 0;
  base::WallTime next{};  // no attempt before then
  bool failed = false;    // given up
  std::string problem;    // of the last attempt
  friend bool operator==(const Message&, const Message&) = default;
};

// One JSON object, as it is stored; strings that are not UTF-8 are repaired.
std::string SerializeMessage(const Message& message);
// nullopt for text that SerializeMessage of this version or an older one did not write.
std::optional<Message> ParseMessage(std::int64_t number, std::string_view text);

// The word that users ask for ("started", "finished", …) for a notice of a job ("job_started"). nullopt:
// nobody is told of it.
std::optional<std::string_view> WordOf(std::string_view notice);
// Whether a user who asked for `words` is told; no words: each end.
bool IsWanted(const std::vector<std::string>& words, std::string_view word);

// What there is to tell. Strings may hold any bytes: they come from users.
struct Notification {
  std::string event;
  std::string message;  // a sentence
  std::string host;     // this machine's name
  base::WallTime at{};
  std::optional<std::int64_t> job;
  std::string name;  // of the job
  std::string user;
  std::string project;
  // Empty: only what an event has is known: the job's id and name, and a GPU.
  std::string state;
  std::optional<std::string> reason;
  std::optional<int> exit_code, signal;
  std::vector<std::string> gpus;
  std::optional<base::WallTime> submitted, started, ended;
  std::optional<std::int64_t> array;
  std::optional<std::int64_t> task;
};

// The body of a webhook: one JSON object, docs/notifications.md describes it. At most some KiB long.
std::string BodyOf(const Notification& notification, const std::string& delivery);

// A mail (RFC 5322) in ASCII, its lines end with CRLF, without the header From, which the sender puts in
// front. Nothing in `notification` can add a header or end one. Only for a notification of a job.
std::string MailOf(const Notification& notification, const std::string& delivery, const std::string& to);

}  // namespace gpuman::notify
