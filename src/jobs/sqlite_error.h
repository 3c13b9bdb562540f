// What a failure of SQLite means for the store, and what to do about it. Pure.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace gpuman::jobs {

struct SqliteFailure {
  int code = 0;    // SQLITE_FULL, …
  int number = 0;  // errno of the system call behind it; 0: not known
  std::string_view message{};
};

// `doing`: "writing", of the database `file`.
base::Error ErrorOfSqlite(const SqliteFailure& failure, const std::filesystem::path& file,
                          std::string_view doing);

}  // namespace gpuman::jobs
