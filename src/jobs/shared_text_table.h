// The part of the store for the values that jobs have in common: one row for each different environment, set
// of limits and queue spec, to which the rows of jobs refer. Not thread-safe; throws the exceptions of
// SQLiteCpp.
//
// A value is recognized by its address (shared.h makes equal values share one object), so this class compares
// no values, and makes a text once for many jobs.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpuman::jobs {

class SharedTextTable {
 public:
  explicit SharedTextTable(SQLite::Database& db);

  // The row of this value; writes it if there is none yet. Within a transaction.
  std::int64_t RowOf(const std::shared_ptr<const void>& value, const std::function<std::string()>& text);
  // The value was read from this row.
  void Learn(const std::shared_ptr<const void>& value, std::int64_t row);

  // The transaction failed: rows written since the last Committed do not exist.
  void RolledBack();
  void Committed() { fresh_.clear(); }

  // Deletes the rows to which no job refers. Within a transaction of its own.
  void Sweep();

 private:
  struct StoredText {
    std::weak_ptr<const void> value;
    std::int64_t row = 0;
  };

  SQLite::Database& db_;
  SQLite::Statement insert_;
  std::unordered_map<const void*, StoredText> known_;
  std::vector<const void*> fresh_;
  std::size_t forget_at_ = 256;
};

}  // namespace gpuman::jobs
