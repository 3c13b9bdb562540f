#include "jobs/sqlite_wal_manager.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "base/file.h"

namespace gpuman::jobs {
namespace {

constexpr int kCheckpointAfter = 1000;  // pages, as SQLite's default
// sqlite.org/fileformat2.html, "The Write-Ahead Log".
constexpr std::size_t kHeaderBytes = 32, kFrameHeaderBytes = 24;
// The greatest length, with room for the commit that reaches it.
constexpr std::size_t kLogBytes = (kCheckpointAfter + 100) * (4096 + kFrameHeaderBytes);
constexpr std::uintmax_t kAmpleRoom = 16 * kLogBytes;

// The bytes of the first `pages` of a log; nullopt: its header is not valid.
std::optional<std::uint64_t> BytesOf(int log, int pages) {
  std::uint32_t page_bytes = 0;
  if (::pread(log, &page_bytes, sizeof page_bytes, 8) != sizeof page_bytes) return std::nullopt;
  page_bytes = be32toh(page_bytes);
  if (page_bytes < 512 || page_bytes > 65536) return std::nullopt;
  return kHeaderBytes + static_cast<std::uint64_t>(pages) * (page_bytes + kFrameHeaderBytes);
}

}  // namespace

SqliteWalManager::SqliteWalManager(sqlite3* db, const std::filesystem::path& file)
    : db_(db), log_(file.string() + "-wal") {
  sqlite3_wal_hook(db_, &OnCommit, this);
  // A daemon that was killed may have left a long log.
  if (sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr) == SQLITE_OK)
    pages_ = 0;
}

SqliteWalManager::~SqliteWalManager() { sqlite3_wal_hook(db_, nullptr, nullptr); }

int SqliteWalManager::OnCommit(void* self, sqlite3* db, const char* name, int pages) {
  static_cast<SqliteWalManager*>(self)->pages_ = pages;
  // A checkpoint that fails now is made after a later commit.
  if (pages >= kCheckpointAfter)
    sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  return SQLITE_OK;
}

// SQLite takes zeros for the end of a log.
void SqliteWalManager::Lengthen() {
  std::error_code error;
  const auto space = std::filesystem::space(log_.parent_path(), error);
  if (error || space.available < kAmpleRoom) return;
  const auto log = base::OpenFile(log_, O_WRONLY, 0600);
  struct stat status {};
  if (!log || ::fstat(log->get(), &status) != 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size >= kLogBytes || ::lseek(log->get(), 0, SEEK_END) < 0) return;
  if (!base::WriteAll(log->get(), std::string(kLogBytes - size, '\0')))
    (void)!::ftruncate(log->get(), status.st_size);
  (void)::fsync(log->get());
}

void SqliteWalManager::GiveRoomBack() {
  if (const auto log = base::OpenFile(log_, O_RDWR, 0600); log && pages_) {
    struct stat status {};
    const auto counts = BytesOf(log->get(), *pages_);
    if (counts && ::fstat(log->get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) > *counts)
      (void)!::ftruncate(log->get(), static_cast<off_t>(*counts));
  }
  // With that room the whole log may be moved to its place.
  if (sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr) == SQLITE_OK)
    pages_ = 0;
}

}  // namespace gpuman::jobs
