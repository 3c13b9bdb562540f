// The file of SQLite's write-ahead log. It is long enough from the first commit on, and no longer than
// necessary on a disk without room.
//
// For one connection, the only one that writes; thread-compatible, like the connection. Nothing here fails: a
// step that does not work costs only time or space.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gpuman::jobs {

class SqliteWalManager {
 public:
  // `db`: open on `file` as long as this object lives. Replaces SQLite's automatic checkpoints and uses the
  // same threshold: a connection has one hook.
  SqliteWalManager(sqlite3* db, const std::filesystem::path& file);
  ~SqliteWalManager();
  SqliteWalManager(const SqliteWalManager&) = delete;
  SqliteWalManager& operator=(const SqliteWalManager&) = delete;

  // A commit that makes the log longer also waits for a commit of the file system, some milliseconds more
  // than a commit that overwrites. Without ample room on the disk the log stays short.
  void Lengthen();

  // Call it after a transaction that found no room. Its pages stand behind the valid part of the log and
  // would keep the disk full, also after a restart.
  void GiveRoomBack();

 private:
  static int OnCommit(void* self, sqlite3* db, const char* name, int pages);

  sqlite3* db_;
  std::filesystem::path log_;
  std::optional<int> pages_;  // valid ones, as of the last commit; since then there may be fewer
};

}  // namespace gpuman::jobs
