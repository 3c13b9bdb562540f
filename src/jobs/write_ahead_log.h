// The file of SQLite's write-ahead log: long enough from the first commit on, and no longer than it has to be
// on a disk without room.
//
// For one connection, the only one that writes; thread-compatible, as that is. Nothing here fails: what
// cannot be done costs time or room alone.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gpuman::jobs {

class WriteAheadLog {
 public:
  // `db`: of `file`, open as long as this lives. Takes the place of SQLite's automatic checkpoints, with the
  // same measure: a connection has one hook.
  WriteAheadLog(sqlite3* db, const std::filesystem::path& file);
  ~WriteAheadLog();
  WriteAheadLog(const WriteAheadLog&) = delete;
  WriteAheadLog& operator=(const WriteAheadLog&) = delete;

  // A commit that makes the log longer waits for a commit of the file system's own as well, some milliseconds
  // more than one that writes over what is there. Without ample room on the disk it stays short.
  void Lengthen();

  // After a transaction that found no room. What it wrote stands behind the part of the log that counts and
  // would keep the disk full, over a restart as well.
  void GiveRoomBack();

 private:
  static int OnCommit(void* self, sqlite3* db, const char* name, int pages);

  sqlite3* db_;
  std::filesystem::path log_;
  std::optional<int> pages_;  // that count, as of the last commit; since then there may have been fewer
};

}  // namespace gpuman::jobs
