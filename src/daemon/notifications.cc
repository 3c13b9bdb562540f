#include "daemon/notifications.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/url.h"
#include "daemon/config_notify.h"
#include "queue/record.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::chrono::seconds kIdle{10};      // the notifier is kept for so long with nothing to do
constexpr std::chrono::seconds kPatience{30};  // with it, beyond the time-out that it keeps itself
constexpr const char* kFailedKind = "notification_failed";

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string RandomId() {
  std::array<unsigned char, 16> bytes{};
  (void)::getentropy(bytes.data(), bytes.size());
  std::string id;
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

std::vector<std::string> WordsOf(const std::vector<queue::NotifyOn>& on) {
  std::vector<std::string> words;
  for (const auto event : on) words.emplace_back(queue::ToString(event));
  return words;
}

notify::News NewsOf(const jobs::Job& job, std::string_view word, const std::string& message) {
  notify::News news;
  news.event = word;
  news.message = message;
  news.job = job.id.value;
  news.name = job.tag;
  news.user = job.owner.user;
  news.project = job.terms->project;
  news.state = word == "suspended" ? word : jobs::ToString(job.state);
  news.reason = job.reason;
  news.exit_code = job.exit_code;
  news.signal = job.signal;
  news.gpus = job.gpus;
  news.submitted = job.submitted_at;
  news.started = job.started_at;
  news.ended = job.ended_at;
  if (job.array.array.value != 0) {
    news.array = job.array.array.value;
    news.task = job.array.task;
  }
  return news;
}

// Without what a URL has of secrets: everybody may see a job.
std::string ReceiverOf(const notify::Message& message) {
  return message.channel == notify::Channel::kMail ? message.target : base::UrlWithoutSecrets(message.target);
}

std::string Describe(const notify::Message& message) {
  return fmt::format("the {} to {} about '{}'",
                     message.channel == notify::Channel::kMail ? "mail" : "webhook", ReceiverOf(message),
                     message.event);
}

}  // namespace

Notifications::Notifications(boost::asio::io_context& loop, boost::asio::thread_pool& workers,
                             const base::Clock& clock, jobs::StoreWorker& store, Options options,
                             notify::Settings settings, Tell tell)
    : loop_(loop),
      workers_(workers),
      clock_(clock),
      store_(store),
      options_(std::move(options)),
      host_(HostName()),
      tell_(std::move(tell)),
      outbox_(settings.outbox),
      due_(loop),
      watch_(loop),
      self_(std::make_shared<Notifications*>(this)) {
  SetSettings(std::move(settings));
}

Notifications::~Notifications() {
  *self_ = nullptr;
  if (link_) link_->Stop();
}

void Notifications::Begin(const std::vector<jobs::OutboxRow>& rows, std::int64_t last_number) {
  last_number_ = last_number;
  jobs::Batch unreadable;
  for (const auto& row : rows) {
    auto message = notify::ParseMessage(row.number, row.record);
    if (message)
      outbox_.Add(std::move(*message), true);
    else
      unreadable.outbox_erase.push_back(row.number);
  }
  if (!unreadable.outbox_erase.empty()) {
    spdlog::warn("{} messages of the outbox cannot be read and are dropped", unreadable.outbox_erase.size());
    store_.Submit(std::move(unreadable), [](const Result<>&) {});
  }
  PumpSoon();
}

void Notifications::SetSettings(notify::Settings settings) {
  settings_ = std::move(settings);
  outbox_.SetSettings(settings_.outbox);
  allowed_.clear();
  for (const auto& text : settings_.allow)
    if (auto network = notify::ParseNetwork(text)) allowed_.push_back(*network);
  PumpSoon();
}

Result<> Notifications::Check(const queue::Notify& asked) const {
  // With a proxy its own rules hold.
  if (!settings_.proxy.empty()) return {};
  for (const auto& text : asked.webhooks) {
    GPUMAN_ASSIGN(const auto url, base::ParseHttpUrl(text));
    // Names are looked up when something is sent; this one means the same everywhere.
    const auto address = notify::ParseAddress(url.host == "localhost" ? "127.0.0.1" : url.host);
    if (!address) continue;
    if (const auto refusal = notify::RefusalOf(*address, allowed_))
      return Fail(ErrorCode::kInvalidArgument, fmt::format("notify.webhooks: {}", *refusal),
                  "an administrator can add it to notify.allow in gpumand.toml");
  }
  return {};
}

std::string Notifications::NoteOn(const queue::Notify& asked) const {
  if (asked.mails.empty() || !settings_.smtp.server.empty()) return {};
  return "this machine sends no mail until an administrator sets notify.smtp.server";
}

bool Notifications::MakeRoom(const notify::Message& message) {
  if (outbox_.HasRoom(message.user)) {
    full_.erase(message.user);
    return true;
  }
  // Said once, until there is room again: it may be thousands.
  if (!full_.insert(message.user).second) return false;
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kFailedKind;
  event.job = message.job;
  event.message = fmt::format("{} is dropped, and so is what comes until others are delivered: too many wait",
                              Describe(message));
  boost::asio::post(loop_, [self = self_, event] {
    if (*self) (*self)->tell_(event);
  });
  return false;
}

jobs::OutboxRow Notifications::Keep(notify::Message message) {
  message.number = ++last_number_;
  jobs::OutboxRow row{message.number, message.job, message.user, notify::SerializeMessage(message)};
  outbox_.Add(std::move(message), false);
  return row;
}

std::vector<jobs::OutboxRow> Notifications::About(const jobs::Job& job,
                                                  const std::vector<jobs::Notice>& notices) {
  // Of most jobs nobody is told, and their requests need not be read.
  if (notices.empty() || job.terms->request.find("\"notify\"") == std::string::npos) return {};
  const auto request = queue::ParseRequest(job.terms->request);
  if (!request) return {};
  const auto words = WordsOf(request->notify.on);
  std::vector<jobs::OutboxRow> rows;
  for (const auto& notice : notices) {
    const auto word = notify::WordOf(notice.kind);
    if (!word || !notify::IsWanted(words, *word)) continue;
    notify::News news = NewsOf(job, *word, notice.message);
    news.host = host_;
    news.at = clock_.Wall();
    const auto add = [&](notify::Channel channel, const std::string& target) {
      notify::Message message;
      message.delivery = RandomId();
      message.user = job.owner.user;
      message.job = job.id.value;
      message.channel = channel;
      message.target = target;
      message.event = *word;
      message.made = news.at;
      message.next = news.at;
      if (!MakeRoom(message)) return;
      message.content = channel == notify::Channel::kMail
                            ? notify::MailOf(news, message.delivery, target)
                            : notify::BodyOf(news, message.delivery);
      rows.push_back(Keep(std::move(message)));
    };
    for (const auto& url : request->notify.webhooks) add(notify::Channel::kWebhook, url);
    for (const auto& mail : request->notify.mails) add(notify::Channel::kMail, mail);
  }
  return rows;
}

std::vector<jobs::OutboxRow> Notifications::About(const jobs::Event& event) {
  if (settings_.webhooks.empty()) return {};
  const auto& kinds = settings_.events;
  const bool wanted = std::find(kinds.begin(), kinds.end(), event.kind) != kinds.end() ||
                      std::find(kinds.begin(), kinds.end(), "all") != kinds.end();
  // That one of their own was given up is not sent to them as well.
  if (!wanted || (event.kind == kFailedKind && !event.job)) return {};
  notify::News news;
  news.event = event.kind;
  news.message = event.message;
  news.host = host_;
  news.at = event.at;
  news.job = event.job;
  news.name = event.tag.value_or("");
  if (event.gpu) news.gpus = {*event.gpu};
  std::vector<jobs::OutboxRow> rows;
  for (const auto& url : settings_.webhooks) {
    notify::Message message;
    message.delivery = RandomId();
    message.target = url;
    message.event = event.kind;
    message.made = news.at;
    message.next = news.at;
    if (!MakeRoom(message)) continue;
    message.content = notify::BodyOf(news, message.delivery);
    rows.push_back(Keep(std::move(message)));
  }
  return rows;
}

void Notifications::OnStored(const std::vector<jobs::OutboxRow>& rows) {
  for (const auto& row : rows) outbox_.Stored(row.number);
  Pump();
}

std::vector<api::NotificationView> Notifications::Of(base::JobId job) const {
  std::vector<api::NotificationView> views;
  for (const auto* const message : outbox_.OfJob(job.value)) {
    api::NotificationView view;
    view.delivery = message->delivery;
    view.event = message->event;
    view.to = ReceiverOf(*message);
    view.state = message->failed ? "failed" : "waiting";
    view.attempts = message->attempts;
    if (!message->failed && message->attempts > 0) view.next_attempt = message->next;
    if (!message->problem.empty()) view.problem = message->problem;
    views.push_back(std::move(view));
  }
  return views;
}

void Notifications::PumpSoon() {
  boost::asio::post(loop_, [self = self_] {
    if (*self) (*self)->Pump();
  });
}

void Notifications::Pump() {
  const auto now = clock_.Wall();
  if (auto gone = outbox_.Prune(now); !gone.empty()) {
    jobs::Batch batch;
    batch.outbox_erase = std::move(gone);
    store_.Submit(std::move(batch), [](const Result<>&) {});
  }
  for (const auto& message : outbox_.TakeDue(now)) Send(message);
  const auto next = outbox_.NextDue(now);
  if (!next) {
    due_.cancel();
    return;
  }
  due_.expires_after(*next - now);
  due_.async_wait([self = self_](boost::system::error_code error) {
    if (!error && *self) (*self)->Pump();
  });
}

Result<std::string> Notifications::SecretOf(const std::string& user) const {
  const bool name = !user.empty() && user.front() != '.' && user.find('/') == std::string::npos;
  std::error_code error;
  if (name && !settings_.secrets.empty() && std::filesystem::exists(settings_.secrets / user, error))
    return ReadSecret(settings_.secrets / user);
  if (settings_.secret_file.empty()) return std::string();
  return ReadSecret(settings_.secret_file);
}

Result<notify::Order> Notifications::OrderFor(const notify::Message& message) const {
  notify::Order order;
  order.number = message.number;
  order.timeout = settings_.timeout;
  order.agent = options_.agent;
  order.ca_file = settings_.ca_file.string();
  if (message.channel == notify::Channel::kWebhook) {
    GPUMAN_ASSIGN(std::string secret, SecretOf(message.user));
    order.what = notify::Post{message.target,    message.delivery, message.event,  message.content,
                              std::move(secret), settings_.allow,  settings_.proxy};
    return order;
  }
  const auto& smtp = settings_.smtp;
  if (smtp.server.empty())
    return Fail(ErrorCode::kNotSupported, "this machine sends no mail: notify.smtp.server is not set");
  notify::SendMail mail;
  mail.server = smtp.server;
  mail.port = smtp.port;
  mail.tls = smtp.tls;
  mail.user = smtp.user;
  if (!smtp.password_file.empty()) {
    GPUMAN_ASSIGN(mail.password, ReadSecret(smtp.password_file));
  }
  mail.from = smtp.from;
  mail.to = message.target;
  mail.text = fmt::format("From: {}\r\n{}", smtp.from, message.content);
  order.what = std::move(mail);
  return order;
}

void Notifications::Send(const notify::Message& message) {
  const auto order = OrderFor(message);
  if (!order) {
    boost::asio::post(loop_, [self = self_, number = message.number, why = order.error().message] {
      if (*self) (*self)->Settle(number, {0, why, false, {}});
    });
    return;
  }
  if (!link_) {
    link_ = std::make_shared<NotifierLink>(
        loop_, workers_,
        NotifierLink::Callbacks{
            [this](const notify::Report& report) { Settle(report.number, report.attempt); },
            [this](const base::Error& error) { OnGone(error); }});
    link_->Start(options_.program);
  }
  link_->Send(*order);
  Watch();
}

// Whether the notifier has something to do, or has had nothing for too long.
void Notifications::Watch() {
  const bool busy = !outbox_.InFlight().empty();
  watch_.expires_after(busy ? settings_.timeout + kPatience : std::chrono::milliseconds(kIdle));
  watch_.async_wait([self = self_, busy](boost::system::error_code error) {
    if (error || !*self || !(*self)->link_) return;
    (*self)->link_->Stop();
    (*self)->link_.reset();
    if (busy) (*self)->OnGone({ErrorCode::kTimeout, "gpuman-notifier does not answer"});
  });
}

void Notifications::OnGone(const base::Error& error) {
  link_.reset();
  for (const std::int64_t number : outbox_.InFlight()) Settle(number, {0, error.message, false, {}});
}

void Notifications::Settle(std::int64_t number, const notify::Attempt& attempt) {
  const auto settled = outbox_.Settle(number, attempt, clock_.Wall());
  if (!settled) return;
  const notify::Message& message = settled->message;
  jobs::Batch batch;
  if (settled->verdict == notify::Verdict::kDelivered)
    batch.outbox_erase = {number};
  else
    batch.outbox = {{number, message.job, message.user, notify::SerializeMessage(message)}};
  store_.Submit(std::move(batch), [](const Result<>& stored) {
    if (!stored)
      spdlog::warn("what became of a notification could not be stored: {}", stored.error().message);
  });
  if (settled->verdict == notify::Verdict::kAgain)
    spdlog::info("{} was not delivered and is tried again: {}", Describe(message), message.problem);
  if (settled->verdict == notify::Verdict::kGivenUp) TellGivenUp(message);
  if (link_) Watch();
  PumpSoon();
}

void Notifications::TellGivenUp(const notify::Message& message) {
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kFailedKind;
  event.job = message.job;
  event.message = fmt::format("{} is given up after {} {}: {}", Describe(message), message.attempts,
                              message.attempts == 1 ? "attempt" : "attempts", message.problem);
  event.data["attempts"] = message.attempts;
  spdlog::warn("{}", event.message);
  tell_(std::move(event));
}

}  // namespace gpuman::daemon
