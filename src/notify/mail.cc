// Makes mails as RFC 5322, 2045 and 2047 define them. A mail is ASCII, whatever bytes the text has.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <string>

#include "base/printable.h"
#include "notify/outbox_message.h"

namespace gpuman::notify {
namespace {

constexpr std::size_t kLongestName = 100;  // bytes of a job's name in a subject
constexpr std::size_t kWordBytes = 42;     // of text in one encoded word: 56 characters of base64, under 75
constexpr std::size_t kBodyLine = 76;      // RFC 2045, 6.8
constexpr const char* kEnd = "\r\n";

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U;
    };
    const unsigned three = at(0) << 16 | at(1) << 8 | at(2);
    for (unsigned k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kDigits[(three >> (18 - 6 * k)) & 63];
  }
  return text;
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
bool IsPrintable(char c) { return c >= ' ' && c < 0x7f; }

// Characters that end a line, control characters, and characters that change how others are shown become
// spaces.
std::string OneLine(std::string_view text) {
  return base::WithInstead(text, [](std::string_view, std::optional<char32_t>) { return " "; });
}

std::string Shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && IsContinuation(text[end])) --end;
  return text.substr(0, end) + "...";
}

// Encodes the text as words of RFC 2047 if it is not ASCII, or could be taken for such words.
std::string HeaderText(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), IsPrintable) && text.find("=?") == std::string::npos) return text;
  std::string words;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(begin + kWordBytes, text.size());
    while (end < text.size() && end > begin + 1 && IsContinuation(text[end])) --end;
    if (!words.empty()) words += "\r\n ";
    words += fmt::format("=?UTF-8?B?{}?=", Base64(std::string_view(text).substr(begin, end - begin)));
    begin = end;
  }
  return words;
}

// The date by RFC 5322, 3.3. strftime cannot be used: its names of days and months depend on the locale.
std::string Date(base::WallTime at) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} +0000", kDays[utc.tm_wday], utc.tm_mday,
                     kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string TextOf(const Notification& notification) {
  std::string text =
      fmt::format("Job {} '{}' of {} on {}: {}\r\n", *notification.job, OneLine(notification.name),
                  OneLine(notification.user), notification.host, notification.event);
  if (!notification.message.empty()) text += fmt::format("\r\n{}\r\n", OneLine(notification.message));
  for (const auto& note : notification.notes) text += fmt::format("\r\n{}\r\n", OneLine(note));
  text += kEnd;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<11}{}\r\n", name, OneLine(value));
  };
  const auto time = [&](const char* name, const std::optional<base::WallTime>& at) {
    if (at) line(name, base::FormatIso8601(*at));
  };
  line("state", notification.state);
  if (notification.exit_code) line("exit", std::to_string(*notification.exit_code));
  if (notification.signal) line("signal", std::to_string(*notification.signal));
  if (!notification.project.empty()) line("project", notification.project);
  for (const auto& gpu : notification.gpus) line("GPU", gpu);
  time("submitted", notification.submitted);
  time("started", notification.started);
  time("ended", notification.ended);
  text += fmt::format("\r\ngpuman job show {0}\r\ngpuman job log {0}\r\n", *notification.job);
  return text;
}

std::string Folded(const std::string& base64) {
  std::string lines;
  for (std::size_t begin = 0; begin < base64.size(); begin += kBodyLine)
    lines += base64.substr(begin, kBodyLine) + kEnd;
  return lines;
}

}  // namespace

std::string MailOf(const Notification& notification, const std::string& delivery, const std::string& to) {
  const std::string subject =
      fmt::format("[gpuman] {} {}: {}", *notification.job,
                  Shortened(OneLine(notification.name), kLongestName), OneLine(notification.event));
  const std::string text = TextOf(notification);
  constexpr std::size_t kLongestLine = 900;  // RFC 5322 has 998
  std::size_t longest = 0, begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    longest = std::max(longest, end - begin);
  const bool plain = longest <= kLongestLine && std::all_of(text.begin(), text.end(), [](char c) {
                       return IsPrintable(c) || c == '\r' || c == '\n';
                     });
  std::string mail;
  const auto header = [&](const char* name, const std::string& value) {
    mail += fmt::format("{}: {}\r\n", name, value);
  };
  header("To", OneLine(to));
  header("Subject", HeaderText(subject));
  header("Date", Date(notification.at));
  header("Message-ID", fmt::format("<{}@{}>", delivery, OneLine(notification.host)));
  header("Auto-Submitted", "auto-generated");
  header("Gpuman-Delivery", delivery);
  header("MIME-Version", "1.0");
  header("Content-Type", "text/plain; charset=utf-8");
  header("Content-Transfer-Encoding", plain ? "7bit" : "base64");
  return mail + kEnd + (plain ? text : Folded(Base64(text)));
}

}  // namespace gpuman::notify
