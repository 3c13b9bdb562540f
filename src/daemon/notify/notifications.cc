#include "daemon/notify/notifications.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/host_name.h"
#include "base/url.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

std::string RandomId() {
  std::array<unsigned char, 16> bytes{};
  // Only kernels from before 2014 lack this call.
  if (::getentropy(bytes.data(), bytes.size()) != 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    std::memcpy(bytes.data(), &now, sizeof(now));
  }
  std::string id;
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

std::vector<std::string> WordsOf(const std::vector<spec::NotifyOn>& on) {
  std::vector<std::string> words;
  words.reserve(on.size());
  for (const auto event : on) words.emplace_back(spec::ToString(event));
  return words;
}

notify::Notification NotificationOf(const jobs::Job& job, std::string_view word, const std::string& message) {
  notify::Notification notification;
  notification.event = word;
  notification.message = message;
  notification.notes = job.notes;
  notification.job = job.id.value;
  notification.name = job.tag;
  notification.user = job.owner->user;
  notification.project = job.spec->project.value_or("");
  notification.state = word == "suspended" ? word : spec::ToString(job.state);
  notification.reason = job.reason;
  notification.exit_code = job.exit_code;
  notification.signal = job.signal;
  notification.gpus = job.gpus;
  notification.submitted = job.submitted_at;
  notification.started = job.started_at;
  notification.ended = job.ended_at;
  if (job.array.array.value != 0) {
    notification.array = job.array.array.value;
    notification.task = job.array.task;
  }
  return notification;
}

}  // namespace

std::string ReceiverOf(const notify::OutboxMessage& message) {
  return message.channel == notify::ChannelKind::kMail ? message.target
                                                       : base::UrlWithoutSecrets(message.target);
}

std::string TitleOf(const notify::OutboxMessage& message) {
  return fmt::format("the {} to {} about '{}'",
                     message.channel == notify::ChannelKind::kMail ? "mail" : "webhook", ReceiverOf(message),
                     message.event);
}

Notifications::Notifications(boost::asio::io_context& loop, boost::asio::thread_pool& workers,
                             const base::Clock& clock, jobs::StoreWorker& store, Options options,
                             notify::NotificationSettings settings, Tell tell)
    : loop_(loop),
      workers_(workers),
      clock_(clock),
      store_(store),
      options_(std::move(options)),
      host_(base::HostName().value_or("localhost")),
      tell_(std::move(tell)),
      outbox_(settings.outbox),
      due_(loop),
      watch_(loop) {
  SetSettings(std::move(settings));
}

Notifications::~Notifications() {
  if (link_) link_->Stop();
}

void Notifications::Begin(const std::vector<jobs::OutboxRow>& rows, std::int64_t last_number) {
  last_number_ = last_number;
  jobs::Batch unreadable;
  for (const auto& row : rows) {
    auto message = notify::ParseMessage(row.number, row.record);
    if (message)
      outbox_.Add(std::move(*message), /*stored=*/true);
    else
      unreadable.outbox_erase.push_back(row.number);
  }
  if (!unreadable.outbox_erase.empty()) {
    spdlog::warn("{} messages of the outbox cannot be read and are dropped", unreadable.outbox_erase.size());
    store_.Submit(std::move(unreadable), [](const Result<>&) {});
  }
  PumpSoon();
}

void Notifications::SetSettings(notify::NotificationSettings settings) {
  settings_ = std::move(settings);
  outbox_.SetSettings(settings_.outbox);
  allowed_.clear();
  for (const auto& text : settings_.allow)
    if (auto network = notify::ParseNetwork(text)) allowed_.push_back(*network);
  PumpSoon();
}

Result<> Notifications::Check(const spec::NotificationOptions& asked) const {
  // With a proxy, the proxy decides which addresses are allowed.
  if (!settings_.proxy.empty()) return {};
  for (const auto& text : asked.webhooks) {
    GPUMAN_ASSIGN(const auto url, base::ParseHttpUrl(text));
    // Names are looked up only when a message is sent, except "localhost", which means the same address
    // everywhere.
    const auto address = notify::ParseAddress(url.host == "localhost" ? "127.0.0.1" : url.host);
    if (!address) continue;
    if (const auto refusal = notify::RefusalOf(*address, allowed_))
      return Fail(ErrorCode::kInvalidArgument, fmt::format("notify.webhooks: {}", *refusal),
                  "an administrator can add it to notify.allow in gpumand.toml");
  }
  return {};
}

std::string Notifications::NoteOn(const spec::NotificationOptions& asked) const {
  if (asked.mails.empty() || !settings_.smtp.server.empty()) return {};
  return "this machine sends no mail until an administrator sets notify.smtp.server";
}

bool Notifications::MakeRoom(const notify::OutboxMessage& message) {
  if (outbox_.HasRoom(message.user)) {
    full_.erase(message.user);
    return true;
  }
  // This is told once until there is room again, since thousands of messages may be dropped.
  if (!full_.insert(message.user).second) return false;
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kNotificationFailed;
  event.job = message.job;
  event.message = fmt::format("{} is dropped, and so is what comes until others are delivered: too many wait",
                              TitleOf(message));
  boost::asio::post(loop_, self_.Bind([event](Notifications& me) { me.tell_(event); }));
  return false;
}

jobs::OutboxRow Notifications::Keep(notify::OutboxMessage message) {
  message.number = ++last_number_;
  jobs::OutboxRow row{message.number, message.job, message.user, notify::SerializeMessage(message)};
  outbox_.Add(std::move(message), /*stored=*/false);
  return row;
}

std::vector<jobs::OutboxRow> Notifications::About(const jobs::Job& job,
                                                  const std::vector<jobs::JobNotice>& notices) {
  const spec::NotificationOptions& asked = job.spec->notify;
  if (notices.empty() || (asked.webhooks.empty() && asked.mails.empty())) return {};
  const auto words = WordsOf(asked.on);
  std::vector<jobs::OutboxRow> rows;
  for (const auto& notice : notices) {
    const auto word = notify::WordOf(notice.kind);
    if (!word || !notify::IsWanted(words, *word)) continue;
    notify::Notification notification = NotificationOf(job, *word, notice.message);
    notification.host = host_;
    notification.at = clock_.Wall();
    const auto add = [&](notify::ChannelKind channel, const std::string& target) {
      notify::OutboxMessage message;
      message.delivery = RandomId();
      message.user = job.owner->user;
      message.job = job.id.value;
      message.channel = channel;
      message.target = target;
      message.event = *word;
      message.made = notification.at;
      message.next = notification.at;
      if (!MakeRoom(message)) return;
      message.content = channel == notify::ChannelKind::kMail
                            ? notify::MailOf(notification, message.delivery, target)
                            : notify::BodyOf(notification, message.delivery);
      rows.push_back(Keep(std::move(message)));
    };
    for (const auto& url : asked.webhooks) add(notify::ChannelKind::kWebhook, url);
    for (const auto& mail : asked.mails) add(notify::ChannelKind::kMail, mail);
  }
  return rows;
}

std::vector<jobs::OutboxRow> Notifications::About(const jobs::Event& event) {
  if (settings_.webhooks.empty()) return {};
  const auto& kinds = settings_.events;
  const bool wanted = std::find(kinds.begin(), kinds.end(), event.kind) != kinds.end() ||
                      std::find(kinds.begin(), kinds.end(), "all") != kinds.end();
  // An event without a job about a message that was given up is not itself sent.
  if (!wanted || (event.kind == kNotificationFailed && !event.job)) return {};
  notify::Notification notification;
  notification.event = event.kind;
  notification.message = event.message;
  notification.host = host_;
  notification.at = event.at;
  notification.job = event.job;
  notification.name = event.tag.value_or("");
  if (event.gpu) notification.gpus = {*event.gpu};
  std::vector<jobs::OutboxRow> rows;
  for (const auto& url : settings_.webhooks) {
    notify::OutboxMessage message;
    message.delivery = RandomId();
    message.target = url;
    message.event = event.kind;
    message.made = notification.at;
    message.next = notification.at;
    if (!MakeRoom(message)) continue;
    message.content = notify::BodyOf(notification, message.delivery);
    rows.push_back(Keep(std::move(message)));
  }
  return rows;
}

void Notifications::OnStored(const std::vector<jobs::OutboxRow>& rows) {
  for (const auto& row : rows) outbox_.Stored(row.number);
  Pump();
}

std::vector<api::PendingNotificationView> Notifications::Of(base::JobId job) const {
  std::vector<api::PendingNotificationView> views;
  for (const auto* const message : outbox_.OfJob(job.value)) {
    api::PendingNotificationView view;
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

}  // namespace gpuman::daemon
