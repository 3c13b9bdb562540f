// The event loop's link to the keeper of one job: starts the keeper, follows it, sends it orders, notices its
// end.
//
// Starting blocks, so a worker does it; everything else, also the callbacks, runs on `loop`. Not thread-safe.
// After the destruction of the link the keeper goes on, and no callback is called.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/executor.h"
#include "keeper/client.h"

namespace gpuman::jobs {

class KeeperLink : public std::enable_shared_from_this<KeeperLink> {
 public:
  struct Callbacks {
    // Gets every record of the journal, in order, from the first. After a reconnection it gets all records
    // again (see their numbers).
    std::function<void(const keeper::JournalRecord&)> on_record;
    // The keeper listens, and on_record has got all records that the keeper has written so far.
    std::function<void()> on_connected;
    // The job's directory could not be made, or the keeper could not be started, for another reason than that
    // it was killed. kCorrupt: the job has lost records, and no keeper will go on with it.
    std::function<void(const base::Error&)> on_failed;
    // Something that an administrator should know; the link continues.
    std::function<void(const std::string&)> on_error;
  };

  // The result of an order. Success: the keeper carried out the order, or keeps it until it can carry it out.
  // kUnavailable: the result is not known, since the connection or this link ended before the keeper
  // answered. Other errors: the keeper refused it.
  using Answer = std::function<void(const base::Result<>&)>;

  // `to_workers` calls its argument on a worker, when the job's user has a turn; or not at all if the daemon
  // is gone. `known_records`: the newest record that an earlier link gave.
  KeeperLink(boost::asio::io_context& loop, base::Executor to_workers, std::filesystem::path program,
             std::filesystem::path job_dir, std::uint64_t known_records, Callbacks callbacks);

  // Makes the job's directory from `spec`, unless it exists. May be called while the job's record is being
  // committed; Start waits for it.
  void Prepare(keeper::Spec spec);
  // Starts the keeper, or finds the one that lives.
  void Start();
  // Call it after on_failed: tries the same again, after a delay that grows.
  void TryAgain() { RetryLater(); }
  // No callback is called any more; orders that wait get their answer soon, from the loop.
  void Stop();
  // Stops, and deletes the job's directory, also if it is just being made. Do not call it after Start.
  void Discard();

  bool connected() const { return connection_.has_value() && hello_; }
  // kUnavailable: there is no connection, or the keeper takes no more; then the link connects again, and
  // on_connected tells the caller when to send again. If the order was sent, `answer` is called once, later;
  // without `answer` a refusal goes to on_error.
  base::Result<> Send(keeper::Command command, Answer answer = {});
  // The keeper keeps the file as long as it lives (keeper::HoldFile). Does nothing where the keeper is not
  // connected, or is of a version that does not know it.
  void Hold(const base::Fd& file);
  // The store has all records up to `seq`. The link tells the keeper now and then, and the keeper drops old
  // records.
  void OnStored(std::uint64_t seq);

 private:
  void MakeDirectory();
  void Spawn();
  void OnSpawned(const base::Result<keeper::KeeperSpawnOutcome>& outcome);
  void OnNotSpawned(const base::Error& error);
  void Connect();
  void Wait();
  void OnReadable();
  // Gives the records of the journal file to on_record, and notes whether the job's end is among them. False:
  // the file could not be read to its end.
  bool ReadJournal();
  void GiveRecord(const keeper::JournalRecord& record);
  void HangUp();
  void OnReply(const keeper::Reply& reply);
  // Ends the connection, and with it the orders that wait for an answer.
  void Disconnect();
  void OnGone();
  void RetryLater();
  void DeleteDirectory();

  boost::asio::io_context& loop_;
  base::Executor to_workers_;
  std::filesystem::path program_;
  std::filesystem::path job_dir_;
  std::uint64_t known_records_;
  Callbacks callbacks_;
  bool stopped_ = false;
  bool discarded_ = false;
  bool preparing_ = false;
  bool prepared_ = true;
  std::shared_ptr<const keeper::Spec> spec_;  // until the directory is made
  bool start_wanted_ = false;
  bool hello_ = false;
  bool holds_ = false;     // what the keeper said
  bool shortens_ = false;  // whether the keeper can shorten its journal
  std::uint64_t stored_sent_ = 0;
  bool ended_ = false;
  bool damage_reported_ = false;
  int failures_ = 0;  // in a row
  std::optional<keeper::KeeperConnection> connection_;
  std::map<std::uint64_t, Answer> asked_;  // orders over this connection, by the number of the command
  std::optional<boost::asio::posix::stream_descriptor> readable_;  // a duplicate of the connection's
  boost::asio::steady_timer retry_;
};

}  // namespace gpuman::jobs
