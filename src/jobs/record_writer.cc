#include "jobs/record_writer.h"

#include <utility>

namespace gpuman::jobs {
namespace {

constexpr base::Millis kRetryDelay{5000};

// Puts `first` in front of `rows`.
void PutFirst(RecordRows& rows, const RecordRows& first) {
  rows.runs.insert(rows.runs.begin(), first.runs.begin(), first.runs.end());
  rows.messages.insert(rows.messages.begin(), first.messages.begin(), first.messages.end());
}

}  // namespace

using base::Result;

void RecordWriter::Write(JobId id, Stored stored, RecordRows rows) {
  // The record says that the rows before it were written.
  if (const auto before = refused_.extract(id); !before.empty()) PutFirst(rows, before.mapped());
  const Job& job = jobs_.At(id);
  Batch batch;
  // A put after the deletion would make it a job again for the next daemon.
  if (!jobs_.IsLeaving(id)) batch.put = {job};
  batch.runs = rows.runs;
  batch.outbox = rows.messages;
  auto on_stored =
      self_.Bind([id, stored = std::move(stored), rows = std::move(rows),
                  tell_keeper = keepers_.OnceStored(job)](RecordWriter& me, const Result<>& outcome) {
        if (outcome) tell_keeper();
        me.OnWritten(id, rows, outcome);
        if (stored) stored(outcome);
      });
  store_.Submit(std::move(batch), std::move(on_stored));
}

void RecordWriter::OnWritten(JobId id, const RecordRows& rows, const Result<>& outcome) {
  const Job* const job = jobs_.Find(id);
  // A removed job is not written any more; its messages are sent all the same.
  if (!rows.messages.empty() && (outcome || !job)) callbacks_.on_messages_stored(rows.messages);
  if (outcome || !job) return;
  callbacks_.on_error(*job, "its record could not be written: " + outcome.error().message);
  RecordRows& refused = refused_[id];
  refused.runs.insert(refused.runs.end(), rows.runs.begin(), rows.runs.end());
  refused.messages.insert(refused.messages.end(), rows.messages.begin(), rows.messages.end());
  RetryLater();
}

void RecordWriter::RetryLater() {
  retry_.expires_after(kRetryDelay);
  retry_.async_wait(self_.Bind([](RecordWriter& me, const boost::system::error_code& error) {
    if (error) return;
    for (auto& [id, rows] : std::exchange(me.refused_, {}))
      if (me.jobs_.Find(id)) me.Write(id, {}, std::move(rows));
  }));
}

std::vector<OutboxRow> RecordWriter::RefusedMessages(JobId id) const {
  const auto it = refused_.find(id);
  return it == refused_.end() ? std::vector<OutboxRow>{} : it->second.messages;
}

std::vector<OutboxRow> RecordWriter::Drop(JobId id) {
  const auto rows = refused_.extract(id);
  return rows.empty() ? std::vector<OutboxRow>{} : std::move(rows.mapped().messages);
}

}  // namespace gpuman::jobs
