// Appends to a job's journal. There is one writer: the process that holds the job's lock, or its child before
// execve while the parent writes nothing. Not thread-safe.
//
// A record counts once it is in the file: Flush returns those records. A record that cannot be written (full
// disk) stays queued, in order. The writer keeps space for some records allocated, so that a keeper can
// record an end on a disk that has filled up meanwhile.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "keeper/journal.h"

namespace gpuman::keeper {

class JournalWriter {
 public:
  // Reads the records that exist into `history` and cuts off a torn last line. kCorrupt: a line is damaged;
  // the file stays as it is.
  static base::Result<JournalWriter> Open(const std::filesystem::path& job_dir, const base::Clock& clock,
                                          JobHistory& history);

  // Stamps the record with the time; it gets its number when it is written.
  void Append(RecordBody body);

  // Writes the queued records, unless held, and syncs when `sync`. Returns those written; an error when one
  // could not be written and stays queued (Pending).
  struct Flushed {
    std::vector<JournalRecord> written;
    base::Result<> result;
  };
  Flushed Flush(bool sync = true);
  bool Pending() const { return !queue_.empty(); }

  // Between Hold and Release the child may write the record number NextSeq(); nothing else is written.
  void Hold() { held_ = true; }
  void Release(bool child_wrote);
  // For a child that died without a report: cuts off a line that the child may have written in part, and
  // returns the record that the child wrote.
  base::Result<std::optional<JournalRecord>> ReleaseAfterLoss(const std::filesystem::path& job_dir);
  // Reduces the file to the records that are StillNeeded; the file is whole at any moment. kConflict while
  // held; kCorrupt: a line is damaged, and all stay.
  base::Result<> Shorten(const std::filesystem::path& job_dir, std::uint64_t stored);
  std::uint64_t NextSeq() const { return next_seq_; }
  std::uint64_t LastSeq() const { return next_seq_ - 1; }

  int fd() const { return fd_.get(); }

 private:
  JournalWriter(base::Fd fd, const base::Clock& clock) : fd_(std::move(fd)), clock_(&clock) {}

  base::Fd fd_;
  const base::Clock* clock_;
  std::vector<JournalRecord> queue_;
  std::uint64_t next_seq_ = 1;
  bool held_ = false;
};

// A record stamped now.
JournalRecord Stamp(const base::Clock& clock, std::uint64_t seq, RecordBody body);

// Writes one line to an open journal, whole or not at all, and syncs it. It is no error when the sync fails:
// the line is lost only if the machine goes down.
base::Result<> WriteRecord(int fd, const JournalRecord& record);

}  // namespace gpuman::keeper
