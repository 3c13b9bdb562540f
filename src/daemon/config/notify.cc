#include "daemon/config/notify.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/url.h"
#include "notify/address.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Millis;

constexpr std::size_t kLongestSecret = 4096;

bool IsKind(const std::string& text) {
  return text == "all" ||
         std::all_of(text.begin(), text.end(), [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
}

// Reports the problem that `wrong` finds with the first wrong entry.
template <typename Wrong>
void Check(TomlReader& in, const char* key, const std::vector<std::string>& entries, Wrong&& wrong) {
  for (const auto& entry : entries)
    if (const std::string what = wrong(entry); !what.empty()) return in.Problem(in.Take(key), key, what);
}

void OptionalPath(TomlReader& in, const char* key, std::filesystem::path& target) {
  std::string text = target.string();
  in.Text(key, text, EmptyText::kAllowed);
  if (!text.empty() && text.front() != '/')
    return in.Problem(in.Take(key), key, fmt::format("'{}' is not an absolute path", text));
  target = text;
}

std::string WrongWithUrl(const std::string& text) {
  const auto url = base::ParseHttpUrl(text);
  return url ? std::string() : url.error().message;
}

void ReadSmtp(TomlReader& in, notify::SmtpSettings& smtp) {
  in.Text("notify.smtp.server", smtp.server, EmptyText::kAllowed);
  // The host as it is written in a URL.
  const bool six = smtp.server.find(':') != std::string::npos;
  if (!smtp.server.empty() && !base::ParseHttpUrl("http://" + (six ? "[" + smtp.server + "]" : smtp.server)))
    in.Problem(in.Take("notify.smtp.server"), "notify.smtp.server",
               fmt::format("'{}' is no name of a host; the port has a key of its own", smtp.server));
  in.Count("notify.smtp.port", smtp.port, 0, 65535);
  std::string tls = "starttls";
  in.Text("notify.smtp.tls", tls);
  if (const auto kind = base::ValueOf(WordsOf(notify::Tls{}), tls))
    smtp.tls = *kind;
  else
    in.Problem(in.Take("notify.smtp.tls"), "notify.smtp.tls",
               fmt::format("'{}' is none of starttls, tls, none", tls));
  in.Text("notify.smtp.from", smtp.from, EmptyText::kAllowed);
  if (!smtp.from.empty() && !base::IsMailAddress(smtp.from))
    in.Problem(in.Take("notify.smtp.from"), "notify.smtp.from",
               fmt::format("'{}' is not an address such as gpuman@example.org", smtp.from));
  if (!smtp.server.empty() && smtp.from.empty())
    in.Problem(in.Take("notify.smtp.server"), "notify.smtp.from", "is missing: whom mails come from");
  in.Text("notify.smtp.user", smtp.user, EmptyText::kAllowed);
  OptionalPath(in, "notify.smtp.password_file", smtp.password_file);
  if (smtp.user.empty() != smtp.password_file.empty())
    in.Problem(in.Take(smtp.user.empty() ? "notify.smtp.password_file" : "notify.smtp.user"),
               smtp.user.empty() ? "notify.smtp.user" : "notify.smtp.password_file",
               "is missing: user and password_file go together");
  if (!smtp.user.empty() && smtp.tls == notify::Tls::kNone)
    in.Problem(in.Take("notify.smtp.tls"), "notify.smtp.tls", "a password is not sent without TLS");
}

}  // namespace

void ReadNotify(TomlReader& in, notify::NotificationSettings& s) {
  in.Names("notify.webhooks", s.webhooks);
  Check(in, "notify.webhooks", s.webhooks, WrongWithUrl);
  in.Names("notify.events", s.events);
  Check(in, "notify.events", s.events, [](const std::string& kind) {
    return IsKind(kind) ? ""
                        : fmt::format("'{}' is no kind of event such as hard_limit, and not \"all\"", kind);
  });
  OptionalPath(in, "notify.secret_file", s.secret_file);
  OptionalPath(in, "notify.secrets", s.secrets);
  in.Names("notify.allow", s.allow);
  Check(in, "notify.allow", s.allow, [](const std::string& text) {
    const auto network = notify::ParseNetwork(text);
    return network ? std::string() : network.error().message;
  });
  in.Text("notify.proxy", s.proxy, EmptyText::kAllowed);
  if (const auto wrong = s.proxy.empty() ? "" : WrongWithUrl(s.proxy); !wrong.empty())
    in.Problem(in.Take("notify.proxy"), "notify.proxy", wrong);
  OptionalPath(in, "notify.ca_file", s.ca_file);
  in.Time("notify.timeout", s.timeout, Millis(100), Millis(300'000));
  auto& retry = s.outbox.retry;
  in.Time("notify.retry_delay", retry.first, Millis(100), kDay);
  in.Time("notify.retry_longest", retry.longest, Millis(100), kDay);
  if (retry.longest < retry.first)
    in.Problem(in.Take("notify.retry_longest"), "notify.retry_longest", "is shorter than notify.retry_delay");
  in.Time("notify.give_up", retry.give_up, Millis(0), 365 * kDay);
  std::uint32_t in_flight = static_cast<std::uint32_t>(s.outbox.in_flight);
  in.Count("notify.in_flight", in_flight, 1, 64);
  s.outbox.in_flight = in_flight;
  std::uint32_t per_user = static_cast<std::uint32_t>(s.outbox.per_user);
  in.Count("notify.per_user", per_user, 1, 100'000);
  s.outbox.per_user = per_user;
  in.Time("notify.keep_failed", s.outbox.keep_failed, Millis(0), 365 * kDay);
  ReadSmtp(in, s.smtp);
}

base::Result<std::string> ReadSecret(const std::filesystem::path& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0) return base::FailSystem(errno, file.string());
  if (!S_ISREG(about.st_mode)) return Fail(ErrorCode::kInvalidArgument, file.string() + " is no file");
  if ((about.st_mode & 077) != 0)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is open to others (mode {:04o}); chmod 600 it",
                                                         file.string(), about.st_mode & 07777U));
  if (about.st_uid != 0 && about.st_uid != ::geteuid())
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} belongs to user {}, who could change it", file.string(), about.st_uid));
  GPUMAN_ASSIGN(std::string text, base::ReadFile(file, kLongestSecret));
  text.erase(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty())
    return Fail(ErrorCode::kInvalidArgument, file.string() + " has nothing in its first line");
  return text;
}

std::vector<ConfigProblem> ProblemsOfFiles(const notify::NotificationSettings& settings,
                                           const std::string& file) {
  std::vector<ConfigProblem> problems;
  const auto check = [&](const char* key, const std::filesystem::path& path) {
    if (path.empty()) return;
    if (const auto secret = ReadSecret(path); !secret)
      problems.push_back({file, 0, key, secret.error().message});
  };
  check("notify.secret_file", settings.secret_file);
  check("notify.smtp.password_file", settings.smtp.password_file);
  std::error_code error;
  if (!settings.secrets.empty() && !std::filesystem::is_directory(settings.secrets, error))
    problems.push_back({file, 0, "notify.secrets", settings.secrets.string() + " is no directory"});
  if (!settings.ca_file.empty() && ::access(settings.ca_file.c_str(), R_OK) != 0)
    problems.push_back({file, 0, "notify.ca_file", settings.ca_file.string() + " cannot be read"});
  return problems;
}

}  // namespace gpuman::daemon
