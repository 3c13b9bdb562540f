#include "jobs/sqlite_error.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>

#include "jobs/store_schema.h"

namespace gpuman::jobs {

base::Error ErrorOfSqlite(const SqliteFailure& failure, const std::filesystem::path& file,
                          std::string_view doing) {
  using enum base::ErrorCode;
  constexpr const char* kFreeSpace = "free space on the disk of the state directory";
  const std::string where = fmt::format("{} {}", doing, file.string());
  const std::string what = fmt::format("{}: {}", where, failure.message);
  switch (failure.code) {
    case SQLITE_FULL:
      return {kExhausted, what, kFreeSpace};
    case SQLITE_IOERR:
      // SQLite calls it so where a quota is used up, and where another call than write(2) finds no space.
      if (failure.number == EDQUOT)
        return {kExhausted, base::SystemError(EDQUOT, where).message,
                fmt::format("{}, or have the quota there raised", kFreeSpace)};
      if (failure.number == ENOSPC) return {kExhausted, base::SystemError(ENOSPC, where).message, kFreeSpace};
      return {kInternal, what};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return {kPermissionDenied, what,
              "the state directory and its files must be writable for the user gpumand runs as"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {kCorrupt, what, WayOut(file)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {kUnavailable, what, "another program holds the database locked"};
    default:
      return {kInternal, what};
  }
}

}  // namespace gpuman::jobs
