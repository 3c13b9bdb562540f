#include "jobs/keeper_link.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

#include "base/remove_tree.h"

namespace gpuman::jobs {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;

constexpr int kPatience = 3;  // failures in a row before the error is reported
constexpr base::Millis kFirstRetry{100};
constexpr base::Millis kLastRetry{30'000};
constexpr std::uint64_t kShortenEvery = 1000;  // records, some 200 KB

}  // namespace

KeeperLink::KeeperLink(asio::io_context& loop, base::Executor to_workers, std::filesystem::path program,
                       std::filesystem::path job_dir, std::uint64_t known_records, Callbacks callbacks)
    : loop_(loop),
      to_workers_(std::move(to_workers)),
      program_(std::move(program)),
      job_dir_(std::move(job_dir)),
      known_records_(known_records),
      callbacks_(std::move(callbacks)),
      retry_(loop) {}

void KeeperLink::Prepare(keeper::Spec spec) {
  spec_ = std::make_shared<const keeper::Spec>(std::move(spec));
  MakeDirectory();
}

void KeeperLink::MakeDirectory() {
  preparing_ = true;
  to_workers_([self = shared_from_this(), spec = spec_] {
    auto outcome = keeper::PrepareJob(self->job_dir_, *spec);
    if (!outcome && outcome.error().code == ErrorCode::kAlreadyExists) outcome = {};
    asio::post(self->loop_, [self, outcome] {
      self->preparing_ = false;
      self->prepared_ = outcome.has_value();
      if (self->discarded_) return self->DeleteDirectory();
      if (self->stopped_) return;
      if (!outcome) return self->callbacks_.on_failed(outcome.error());
      self->spec_.reset();
      self->failures_ = 0;
      if (self->start_wanted_) self->Spawn();
    });
  });
}

void KeeperLink::Start() {
  start_wanted_ = true;
  if (!preparing_ && prepared_) Spawn();
}

void KeeperLink::Stop() {
  stopped_ = true;
  Disconnect();
  retry_.cancel();
  callbacks_ = {};
}

void KeeperLink::Discard() {
  Stop();
  discarded_ = true;
  if (!preparing_) DeleteDirectory();
}

void KeeperLink::DeleteDirectory() {
  to_workers_([directory = job_dir_] { (void)base::RemoveTree(directory); });
}

void KeeperLink::Spawn() {
  to_workers_([self = shared_from_this(), known = known_records_] {
    auto outcome = keeper::SpawnKeeper({self->program_, self->job_dir_, known});
    asio::post(self->loop_, [self, outcome = std::move(outcome)] {
      if (!self->stopped_) self->OnSpawned(outcome);
    });
  });
}

void KeeperLink::OnSpawned(const base::Result<keeper::KeeperSpawnOutcome>& outcome) {
  if (!outcome) return OnNotSpawned(outcome.error());
  if (*outcome == keeper::KeeperSpawnOutcome::kAlreadyEnded) {
    // If the journal cannot be read now, the end is in it all the same.
    (void)ReadJournal();
    if (!ended_ && !stopped_) RetryLater();
    return;
  }
  Connect();
}

void KeeperLink::OnNotSpawned(const base::Error& error) {
  // The keeper may have written more to its journal than it reported.
  (void)ReadJournal();
  if (ended_ || stopped_) return;
  // The keeper was killed while it started, or it may live although its starter was killed: the next try
  // finds out.
  if (error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout) return RetryLater();
  callbacks_.on_failed(error);
}

void KeeperLink::Connect() {
  auto connection = keeper::KeeperConnection::Connect(job_dir_);
  if (!connection) {
    OnGone();
    return;
  }
  // The connection closes its own descriptor, and asio closes its duplicate.
  const int copy = ::fcntl(connection->fd(), F_DUPFD_CLOEXEC, 3);
  if (copy < 0) {
    callbacks_.on_error(base::SystemError(errno, "following a keeper").message);
    RetryLater();
    return;
  }
  connection_.emplace(std::move(*connection));
  hello_ = false;
  readable_.emplace(loop_, copy);
  OnReadable();
}

void KeeperLink::Wait() {
  readable_->async_wait(asio::posix::stream_descriptor::wait_read,
                        [self = shared_from_this()](const boost::system::error_code& error) {
                          if (!error && !self->stopped_) self->OnReadable();
                        });
}

void KeeperLink::OnReadable() {
  while (connection_) {
    auto message = connection_->Receive();
    if (!message) {
      OnGone();
      return;
    }
    if (!*message) {
      Wait();
      return;
    }
    if (const auto* hello = std::get_if<keeper::KeeperHello>(&**message)) {
      hello_ = true;  // set before the journal is read, since its records may cause orders
      shortens_ = hello->shortens;
      holds_ = hello->holds;
      // New messages are used only behind the records that were written before.
      if (!ReadJournal()) return OnGone();
      failures_ = 0;
      if (!stopped_ && !ended_ && callbacks_.on_connected) callbacks_.on_connected();
    } else if (const auto* record = std::get_if<keeper::JournalRecord>(&**message)) {
      GiveRecord(*record);
    } else if (const auto* reply = std::get_if<keeper::Reply>(&**message)) {
      OnReply(*reply);
    }
    // A callback may have stopped this link.
    if (stopped_) return;
  }
}

void KeeperLink::OnReply(const keeper::Reply& reply) {
  const auto asked = asked_.extract(reply.id);
  if (!asked.empty() && asked.mapped())
    asked.mapped()(reply.error ? base::Result<>(base::Fail(*reply.error)) : base::Result<>{});
  else if (reply.error)
    callbacks_.on_error("the keeper refused an order: " + reply.error->message);
}

bool KeeperLink::ReadJournal() {
  ended_ = false;
  const auto read =
      keeper::EachRecord(job_dir_, [this](const keeper::JournalRecord& record) { GiveRecord(record); });
  if (!read && !stopped_) callbacks_.on_error("reading the job's journal: " + read.error().message);
  // The keeper that lives knows what it wrote; the next one will refuse.
  if (read && read->damaged_line && hello_ && !ended_ && !stopped_ && !std::exchange(damage_reported_, true))
    callbacks_.on_error(keeper::DamagedLine(job_dir_, *read->damaged_line).message +
                        "; the job goes on as long as its keeper lives");
  return read.has_value();
}

void KeeperLink::GiveRecord(const keeper::JournalRecord& record) {
  ended_ = ended_ || std::holds_alternative<keeper::JobEnded>(record.body);
  known_records_ = std::max(known_records_, record.seq);
  if (!stopped_) callbacks_.on_record(record);
}

// A keeper that hangs up gets the file again when it is connected.
void KeeperLink::Hold(const base::Fd& file) {
  if (!connected() || !holds_) return;
  if (const auto sent = connection_->Send(keeper::HoldFile{}, file.get()))
    asked_.emplace(*sent, Answer{});
  else if (sent.error().code == ErrorCode::kUnavailable)
    HangUp();
}

void KeeperLink::OnStored(std::uint64_t seq) {
  if (seq < stored_sent_ + kShortenEvery || !connected() || !shortens_) return;
  // If the keeper cannot be told, the link connects again and tells the next number.
  if (Send(keeper::RecordsStored{seq})) stored_sent_ = seq;
}

void KeeperLink::OnGone() {
  Disconnect();
  if (ended_ || stopped_) return;
  (void)ReadJournal();
  if (ended_ || stopped_) return;
  RetryLater();
}

// SpawnKeeper finds out whether a keeper lives, the job has ended or a new keeper is needed.
void KeeperLink::RetryLater() {
  ++failures_;
  if (failures_ == kPatience) callbacks_.on_error("the job's keeper cannot be reached; trying again");
  const int doublings = std::min(failures_ - 1, 10);
  retry_.expires_after(failures_ == 1 ? base::Millis(0)
                                      : std::min(kFirstRetry * (1 << doublings), kLastRetry));
  retry_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->stopped_) return;
    if (self->prepared_)
      self->Spawn();
    else
      self->MakeDirectory();
  });
}

base::Result<> KeeperLink::Send(keeper::Command command, Answer answer) {
  if (!connected()) return base::Fail(ErrorCode::kUnavailable, "the job's keeper is not connected");
  auto sent = connection_->Send(std::move(command));
  if (sent) {
    asked_.emplace(*sent, std::move(answer));
    return {};
  }
  // The lost order is sent again when the keeper listens: a keeper that stayed connected would never get it.
  if (sent.error().code == ErrorCode::kUnavailable) HangUp();
  return base::Fail(sent.error());
}

// Answers come later: the caller of the order, or of Stop, may be in the middle of a change.
void KeeperLink::Disconnect() {
  readable_.reset();
  connection_.reset();
  hello_ = false;
  stored_sent_ = 0;
  if (asked_.empty()) return;
  asio::post(loop_, [asked = std::exchange(asked_, {})] {
    for (const auto& [id, answer] : asked)
      if (answer) answer(base::Fail(ErrorCode::kUnavailable, "the job's keeper hung up before it answered"));
  });
}

// The caller may be a callback of this link, or the caller may be in the middle of a change that a record
// would disturb.
void KeeperLink::HangUp() {
  Disconnect();
  asio::post(loop_, [self = shared_from_this()] {
    if (!self->stopped_) self->OnGone();
  });
}

}  // namespace gpuman::jobs
