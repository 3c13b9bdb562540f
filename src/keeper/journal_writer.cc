#include "keeper/journal_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "keeper/job_dir.h"

namespace gpuman::keeper {
namespace {

// Room for some thirty records.
constexpr off_t kReserve = 8192;

off_t SizeOf(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : 0;
}

// A file system without fallocate gives no promise for a full disk, nor does btrfs for a quota that is used
// up: then an end is recorded when there is room again. Nothing else changes.
void Reserve(int fd) { (void)::fallocate(fd, FALLOC_FL_KEEP_SIZE, SizeOf(fd), kReserve); }

// Makes the end fit for another line.
base::Result<> MendEnd(int fd, const JournalEnd& end) {
  if (end.torn && ::ftruncate(fd, static_cast<off_t>(end.whole_bytes)) != 0)
    return base::FailSystem(errno, "cutting a torn record off the journal");
  if (end.lacks_newline) return base::WriteAll(fd, "\n");
  return {};
}

// Writes all of `text` or nothing.
base::Result<> AppendWhole(int fd, std::string_view text) {
  const off_t before = SizeOf(fd);
  auto written = base::WriteAll(fd, text);
  if (!written && SizeOf(fd) != before && ::ftruncate(fd, before) != 0)
    return base::FailSystem(errno, "cutting a torn record off the journal");
  return written;
}

}  // namespace

JournalRecord Stamp(const base::Clock& clock, std::uint64_t seq, RecordBody body) {
  const auto mono = std::chrono::duration_cast<base::Millis>(clock.Mono().time_since_epoch());
  return JournalRecord{seq, clock.Wall(), mono, std::move(body)};
}

base::Result<> WriteRecord(int fd, const JournalRecord& record) {
  GPUMAN_TRY(AppendWhole(fd, EncodeLine(record)));
  (void)::fdatasync(fd);
  return {};
}

base::Result<JournalWriter> JournalWriter::Open(const std::filesystem::path& job_dir,
                                                const base::Clock& clock, JobHistory& history) {
  GPUMAN_ASSIGN(base::Fd fd, base::OpenFile(job_dir / kJournalFile, O_RDWR | O_CREAT | O_APPEND, 0600));
  history = {};
  GPUMAN_ASSIGN(const auto end,
                EachRecord(job_dir, [&](const JournalRecord& record) { Apply(history, record); }));
  if (end.damaged_line) return base::Fail(DamagedLine(job_dir, *end.damaged_line));
  GPUMAN_TRY(MendEnd(fd.get(), end));
  Reserve(fd.get());
  JournalWriter writer(std::move(fd), clock);
  writer.next_seq_ = history.last_seq + 1;
  return writer;
}

void JournalWriter::Append(RecordBody body) { queue_.push_back(Stamp(*clock_, 0, std::move(body))); }

JournalWriter::Flushed JournalWriter::Flush(bool sync) {
  Flushed flushed;
  if (held_ || queue_.empty()) return flushed;
  std::size_t done = 0;
  for (; done < queue_.size(); ++done) {
    queue_[done].seq = next_seq_;
    flushed.result = AppendWhole(fd_.get(), EncodeLine(queue_[done]));
    if (!flushed.result) break;
    ++next_seq_;
  }
  if (done > 0 && sync) {
    (void)::fdatasync(fd_.get());
    Reserve(fd_.get());
  }
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(done);
  flushed.written.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return flushed;
}

base::Result<std::optional<JournalRecord>> JournalWriter::ReleaseAfterLoss(
    const std::filesystem::path& job_dir) {
  JournalRecord last;
  GPUMAN_ASSIGN(const auto end, EachRecord(job_dir, [&](JournalRecord record) { last = std::move(record); }));
  GPUMAN_TRY(MendEnd(fd_.get(), end));
  const bool wrote = last.seq == next_seq_;
  Release(wrote);
  if (!wrote) return std::nullopt;
  return last;
}

base::Result<> JournalWriter::Shorten(const std::filesystem::path& job_dir, std::uint64_t stored) {
  if (held_) return base::Fail(base::ErrorCode::kConflict, "a run is just being started");
  GPUMAN_ASSIGN(const auto content, ReadJournal(job_dir));
  if (content.end.damaged_line) return base::Fail(DamagedLine(job_dir, *content.end.damaged_line));
  GPUMAN_ASSIGN(const base::Fd directory, base::OpenFile(job_dir, O_RDONLY | O_DIRECTORY));
  const auto path = job_dir / kJournalFile;
  const auto made = path.string() + ".new";
  ::unlink(made.c_str());
  GPUMAN_ASSIGN(base::Fd fd, base::OpenFile(made, O_RDWR | O_CREAT | O_APPEND, 0600));
  std::string text;
  for (const auto& record : StillNeeded(content.records, stored)) text += EncodeLine(record);
  auto done = base::WriteAll(fd.get(), text);
  if (done && (::fsync(fd.get()) != 0 || ::rename(made.c_str(), path.c_str()) != 0))
    done = base::FailSystem(errno, "shortening the journal");
  if (!done) {
    ::unlink(made.c_str());
    return done;
  }
  (void)::fsync(directory.get());
  fd_ = std::move(fd);
  Reserve(fd_.get());
  return {};
}

void JournalWriter::Release(bool child_wrote) {
  held_ = false;
  if (child_wrote) ++next_seq_;
}

}  // namespace gpuman::keeper
