// Gives due messages to gpuman-notifier, and handles the results.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/config/notify.h"
#include "daemon/notify/notifications.h"

namespace gpuman::daemon {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {
constexpr std::chrono::seconds kIdle{10};      // how long the notifier is kept with nothing to do
constexpr std::chrono::seconds kPatience{30};  // how long the daemon waits beyond the notifier's own time-out
}  // namespace

void Notifications::PumpSoon() {
  boost::asio::post(loop_, self_.Bind([](Notifications& me) { me.Pump(); }));
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
  due_.async_wait(self_.Bind([](Notifications& me, boost::system::error_code error) {
    if (!error) me.Pump();
  }));
}

Result<std::string> Notifications::SecretOf(const std::string& user) const {
  const bool name = !user.empty() && user.front() != '.' && user.find('/') == std::string::npos;
  std::error_code error;
  if (name && !settings_.secrets.empty() && std::filesystem::exists(settings_.secrets / user, error))
    return ReadSecret(settings_.secrets / user);
  if (settings_.secret_file.empty()) return std::string();
  return ReadSecret(settings_.secret_file);
}

Result<notify::DeliveryRequest> Notifications::OrderFor(const notify::OutboxMessage& message) const {
  notify::DeliveryRequest order;
  order.number = message.number;
  order.timeout = settings_.timeout;
  order.agent = options_.agent;
  order.ca_file = settings_.ca_file.string();
  if (message.channel == notify::ChannelKind::kWebhook) {
    GPUMAN_ASSIGN(std::string secret, SecretOf(message.user));
    order.what = notify::HttpPost{message.target,    message.delivery, message.event,  message.content,
                                  std::move(secret), settings_.allow,  settings_.proxy};
    return order;
  }
  const auto& smtp = settings_.smtp;
  if (smtp.server.empty())
    return Fail(ErrorCode::kNotSupported, "this machine sends no mail: notify.smtp.server is not set");
  notify::OutgoingMail mail;
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

void Notifications::Send(const notify::OutboxMessage& message) {
  const auto order = OrderFor(message);
  if (!order) {
    boost::asio::post(loop_,
                      self_.Bind([number = message.number, why = order.error().message](Notifications& me) {
                        me.RecordAttempt(number, {0, why, false, {}});
                      }));
    return;
  }
  if (!link_) {
    link_ = std::make_shared<NotifierLink>(
        loop_, workers_,
        NotifierLink::Callbacks{
            [this](const notify::DeliveryReport& report) { RecordAttempt(report.number, report.attempt); },
            [this](const base::Error& error) { OnGone(error); }});
    link_->Start(options_.program);
  }
  link_->Send(*order);
  Watch();
}

// Ends a notifier that does not answer, or that has had nothing to do for too long.
void Notifications::Watch() {
  const bool busy = !outbox_.InFlight().empty();
  watch_.expires_after(busy ? settings_.timeout + kPatience : std::chrono::milliseconds(kIdle));
  watch_.async_wait(self_.Bind([busy](Notifications& me, boost::system::error_code error) {
    if (error || !me.link_) return;
    me.link_->Stop();
    me.link_.reset();
    if (busy) me.OnGone({ErrorCode::kTimeout, "gpuman-notifier does not answer"});
  }));
}

void Notifications::OnGone(const base::Error& error) {
  link_.reset();
  for (const std::int64_t number : outbox_.InFlight()) RecordAttempt(number, {0, error.message, false, {}});
}

void Notifications::RecordAttempt(std::int64_t number, const notify::Attempt& attempt) {
  const auto result = outbox_.RecordAttempt(number, attempt, clock_.Wall());
  if (!result) return;
  const notify::OutboxMessage& message = result->message;
  jobs::Batch batch;
  if (result->outcome == notify::DeliveryOutcome::kDelivered)
    batch.outbox_erase = {number};
  else
    batch.outbox = {{number, message.job, message.user, notify::SerializeMessage(message)}};
  store_.Submit(std::move(batch), [](const Result<>& stored) {
    if (!stored)
      spdlog::warn("what became of a notification could not be stored: {}", stored.error().message);
  });
  if (result->outcome == notify::DeliveryOutcome::kRetry)
    spdlog::info("{} was not delivered and is tried again: {}", TitleOf(message), message.problem);
  if (result->outcome == notify::DeliveryOutcome::kGivenUp) TellGivenUp(message);
  if (link_) Watch();
  PumpSoon();
}

void Notifications::TellGivenUp(const notify::OutboxMessage& message) {
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kNotificationFailed;
  event.job = message.job;
  event.message = fmt::format("{} is given up after {} {}: {}", TitleOf(message), message.attempts,
                              message.attempts == 1 ? "attempt" : "attempts", message.problem);
  event.data["attempts"] = message.attempts;
  spdlog::warn("{}", event.message);
  tell_(std::move(event));
}

}  // namespace gpuman::daemon
