// Notifications, kept and sent: turns what happens into messages that are stored with it, and has them
// delivered by gpuman-notifier until they are, or are given up.
//
// A message is delivered at least once, with the same id each time: it is deleted after it was delivered, and
// a daemon that is killed in between sends it again. The process that sends is there only while there is
// something to send.
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

// The kind of event that tells of a message that was given up or dropped.
inline constexpr const char* kNotificationFailed = "notification_failed";

// For people, without what a URL has of secrets: everybody may see a job. A mail address or "https://host/…";
// "the webhook to https://host/… about 'failed'".
std::string ReceiverOf(const notify::Message& message);
std::string TitleOf(const notify::Message& message);

class Notifications {
 public:
  struct Options {
    std::filesystem::path program;  // gpuman-notifier
    std::string agent;              // how it names itself
  };
  // An event to be told.
  using Tell = std::function<void(jobs::Event)>;

  // All must outlive this object.
  Notifications(boost::asio::io_context& loop, boost::asio::thread_pool& workers, const base::Clock& clock,
                jobs::StoreWorker& store, Options options, notify::DeliverySettings settings, Tell tell);
  ~Notifications();
  Notifications(const Notifications&) = delete;
  Notifications& operator=(const Notifications&) = delete;

  // What the store had; `last_number`: the highest ever given.
  void Begin(const std::vector<jobs::OutboxRow>& rows, std::int64_t last_number);
  void SetSettings(notify::DeliverySettings settings);

  // kInvalidArgument: it names an address that nothing is sent to.
  base::Result<> Check(const spec::Notify& asked) const;
  // What the asker should know, though it is taken; empty: nothing.
  std::string NoteOn(const spec::Notify& asked) const;

  // To be stored together with the job, or the event; and then OnStored.
  std::vector<jobs::OutboxRow> About(const jobs::Job& job, const std::vector<jobs::Notice>& notices);
  std::vector<jobs::OutboxRow> About(const jobs::Event& event);
  void OnStored(const std::vector<jobs::OutboxRow>& rows);

  // Those of the job that are not delivered.
  std::vector<api::NotificationView> Of(base::JobId job) const;
  // Of all: those that wait or are on their way, and those that were given up and are kept.
  std::size_t Pending() const { return outbox_.size() - outbox_.failed(); }
  std::size_t Failed() const { return outbox_.failed(); }

 private:
  jobs::OutboxRow Keep(notify::Message message);
  bool MakeRoom(const notify::Message& message);
  void Pump();
  void PumpSoon();
  void Send(const notify::Message& message);
  base::Result<notify::Order> OrderFor(const notify::Message& message) const;
  base::Result<std::string> SecretOf(const std::string& user) const;
  void RecordAttempt(std::int64_t number, const notify::Attempt& attempt);
  void TellGivenUp(const notify::Message& message);
  void OnGone(const base::Error& error);
  void Watch();

  boost::asio::io_context& loop_;
  boost::asio::thread_pool& workers_;
  const base::Clock& clock_;
  jobs::StoreWorker& store_;
  const Options options_;
  const std::string host_;
  notify::DeliverySettings settings_;
  std::vector<notify::Network> allowed_;
  Tell tell_;
  notify::Outbox outbox_;
  std::int64_t last_number_ = 0;
  std::set<std::string> full_;  // users of whom messages were dropped, until one is taken again
  std::shared_ptr<NotifierLink> link_;
  boost::asio::steady_timer due_;
  boost::asio::steady_timer watch_;  // that it answers, and that it is not kept for nothing
  // Callbacks that outlive this object find it gone.
  std::shared_ptr<Notifications*> self_;
};

}  // namespace gpuman::daemon
