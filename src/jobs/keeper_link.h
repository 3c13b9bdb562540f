// One job's keeper as the event loop sees it: start it, follow it, give it orders, notice its end.
//
// Starting blocks, so it runs on a worker; everything else, the callbacks too, on `loop`. Not thread-safe.
// Destroying it lets the keeper go on and brings no more callbacks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "keeper/client.h"

namespace gpuman::jobs {

class KeeperLink : public std::enable_shared_from_this<KeeperLink> {
 public:
  struct Callbacks {
    // Every record of the journal, in order, from the first; again after a reconnection (their numbers tell).
    std::function<void(const keeper::JournalRecord&)> on_record;
    // The keeper listens and all it wrote so far was given to on_record.
    std::function<void()> on_connected;
    // The job's directory could not be made, or a keeper not be started, and not because it was killed.
    std::function<void(const base::Error&)> on_failed;
    // Something an administrator should know; the link goes on.
    std::function<void(const std::string&)> on_trouble;
  };

  // What became of an order. Nothing: the keeper carried it out, or keeps it until it can. kUnavailable:
  // nobody knows, for the connection or this link ended before the keeper answered. Else: it was refused.
  using Answer = std::function<void(const base::Result<>&)>;

  // Calls what it gets on a worker, when the job's user has a turn; or not, where there is no daemon any
  // more.
  using Post = std::function<void(std::function<void()>)>;

  KeeperLink(boost::asio::io_context& loop, Post to_workers, std::filesystem::path program,
             std::filesystem::path job_dir, Callbacks callbacks);

  // Makes the job's directory from `spec` unless it is there. May be called while its record is being
  // committed; Start waits for it.
  void Prepare(keeper::Spec spec);
  // Starts the keeper, or finds the one that lives.
  void Start();
  // From on_failed: tries the same again, after a while that grows.
  void TryAgain() { RetryLater(); }
  // No more callbacks; orders that wait for their answer are answered soon, from the loop.
  void Stop();
  // Stop, and the job's directory goes, also when it is just being made. Not after Start.
  void Discard();

  bool connected() const { return connection_.has_value() && hello_; }
  // kUnavailable while not connected, and where the keeper takes no more: then it is connected to anew, and
  // on_connected says when it can be told again. Where it was sent `answer` is called, once and later;
  // without one a refusal goes to on_trouble.
  base::Result<> Send(keeper::Command command, Answer answer = {});
  // Records up to here are in the store: now and then the keeper is told, and lets go of old ones.
  void OnStored(std::uint64_t seq);

 private:
  void MakeDirectory();
  void Spawn();
  void OnSpawned(const base::Result<keeper::SpawnOutcome>& outcome);
  void OnNotSpawned(const base::Error& error);
  void Connect();
  void Wait();
  void OnReadable();
  // Gives what the journal file holds to on_record, and notes whether the job's end is among it. False: it
  // could not be read to its end.
  bool ReadJournal();
  void HangUp();
  void OnReply(const keeper::Reply& reply);
  // The connection is over, and with it what was asked over it.
  void Disconnect();
  void OnGone();
  void RetryLater();
  void DeleteDirectory();

  boost::asio::io_context& loop_;
  Post to_workers_;
  std::filesystem::path program_;
  std::filesystem::path job_dir_;
  Callbacks callbacks_;
  bool stopped_ = false;
  bool discarded_ = false;
  bool preparing_ = false;
  bool prepared_ = true;
  std::shared_ptr<const keeper::Spec> spec_;  // until it is prepared
  bool start_wanted_ = false;
  bool hello_ = false;
  bool shortens_ = false;  // the keeper its journal
  std::uint64_t told_stored_ = 0;
  bool ended_ = false;
  int failures_ = 0;  // in a row
  std::optional<keeper::KeeperConnection> connection_;
  std::map<std::uint64_t, Answer> asked_;  // over this connection, by the number of the command
  std::optional<boost::asio::posix::stream_descriptor> readable_;  // a duplicate of the connection's
  boost::asio::steady_timer retry_;
};

}  // namespace gpuman::jobs
