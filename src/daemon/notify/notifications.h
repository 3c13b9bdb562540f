// Keeps and sends notifications: makes messages from changes of jobs and from events, stores them together
// with those, and has gpuman-notifier send each message until it is delivered or given up.
//
// A message is delivered at least once, with the same id each time: it is deleted after it was delivered, and
// a daemon that is killed in between sends it again. gpuman-notifier runs only while there is something to
// send.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/queue_fields.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/weak_self.h"
#include "daemon/notify/notifier_link.h"
#include "jobs/event.h"
#include "jobs/job.h"
#include "jobs/lifecycle.h"
#include "jobs/outbox.h"
#include "jobs/store_worker.h"
#include "notify/address.h"
#include "notify/outbox.h"
#include "notify/settings.h"
#include "spec/job_spec.h"

namespace gpuman::daemon {

// The kind of the event that tells that a message was given up or dropped.
inline constexpr const char* kNotificationFailed = "notification_failed";

// Texts for people, without the parts of a URL that may be secret, because everybody may see a job.
// ReceiverOf: a mail address or "https://host/…". TitleOf: "the webhook to https://host/… about 'failed'".
std::string ReceiverOf(const notify::OutboxMessage& message);
std::string TitleOf(const notify::OutboxMessage& message);

class Notifications {
 public:
  struct Options {
    std::filesystem::path program;  // gpuman-notifier
    std::string agent;              // the name under which it sends
  };
  // Tells an event.
  using Tell = std::function<void(jobs::Event)>;

  // All must outlive this object.
  Notifications(boost::asio::io_context& loop, boost::asio::thread_pool& workers, const base::Clock& clock,
                jobs::StoreWorker& store, Options options, notify::NotificationSettings settings, Tell tell);
  ~Notifications();
  Notifications(const Notifications&) = delete;
  Notifications& operator=(const Notifications&) = delete;

  // `rows`: the messages in the store; `last_number`: the highest number that a message ever had.
  void Begin(const std::vector<jobs::OutboxRow>& rows, std::int64_t last_number);
  void SetSettings(notify::NotificationSettings settings);

  // kInvalidArgument: `asked` names an address to which the daemon sends nothing.
  base::Result<> Check(const spec::NotificationOptions& asked) const;
  // A note for the user whose request is accepted; empty: none.
  std::string NoteOn(const spec::NotificationOptions& asked) const;

  // The messages about the job or the event. The caller stores them together with it, and then calls
  // OnStored.
  std::vector<jobs::OutboxRow> About(const jobs::Job& job, const std::vector<jobs::JobNotice>& notices);
  std::vector<jobs::OutboxRow> About(const jobs::Event& event);
  void OnStored(const std::vector<jobs::OutboxRow>& rows);

  // The notifications of the job that are not delivered.
  std::vector<api::PendingNotificationView> Of(base::JobId job) const;
  // The number of messages that wait or are being sent, and of those that were given up and are kept.
  std::size_t Pending() const { return outbox_.size() - outbox_.failed(); }
  std::size_t Failed() const { return outbox_.failed(); }

 private:
  jobs::OutboxRow Keep(notify::OutboxMessage message);
  bool MakeRoom(const notify::OutboxMessage& message);
  void Pump();
  void PumpSoon();
  void Send(const notify::OutboxMessage& message);
  base::Result<notify::DeliveryRequest> OrderFor(const notify::OutboxMessage& message) const;
  base::Result<std::string> SecretOf(const std::string& user) const;
  void RecordAttempt(std::int64_t number, const notify::Attempt& attempt);
  void TellGivenUp(const notify::OutboxMessage& message);
  void OnGone(const base::Error& error);
  void Watch();

  boost::asio::io_context& loop_;
  boost::asio::thread_pool& workers_;
  const base::Clock& clock_;
  jobs::StoreWorker& store_;
  const Options options_;
  const std::string host_;
  notify::NotificationSettings settings_;
  std::vector<notify::IpNetwork> allowed_;
  Tell tell_;
  notify::Outbox outbox_;
  std::int64_t last_number_ = 0;
  std::set<std::string> full_;  // users whose messages were dropped, until one is accepted again
  std::shared_ptr<NotifierLink> link_;
  boost::asio::steady_timer due_;
  boost::asio::steady_timer watch_;  // ends a notifier that is silent or idle for too long
  base::WeakSelf<Notifications> self_{this};
};

}  // namespace gpuman::daemon
