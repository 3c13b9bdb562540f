#include "jobs/shared_text_table.h"

#include <set>

namespace gpuman::jobs {

SharedTextTable::SharedTextTable(SQLite::Database& db)
    : db_(db), insert_(db, "INSERT INTO shared(text) VALUES(?)") {}

std::int64_t SharedTextTable::RowOf(const std::shared_ptr<const void>& value,
                                    const std::function<std::string()>& text) {
  if (const auto it = known_.find(value.get()); it != known_.end() && !it->second.value.expired())
    return it->second.row;
  insert_.bind(1, text());
  try {
    insert_.exec();
  } catch (...) {
    insert_.tryReset();
    throw;
  }
  insert_.reset();
  const std::int64_t row = db_.getLastInsertRowid();
  Learn(value, row);
  fresh_.push_back(value.get());
  return row;
}

void SharedTextTable::Learn(const std::shared_ptr<const void>& value, std::int64_t row) {
  if (known_.size() >= forget_at_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.value.expired(); });
    forget_at_ = 2 * known_.size() + 256;
  }
  known_.insert_or_assign(value.get(), StoredText{value, row});
}

void SharedTextTable::RolledBack() {
  for (const void* const value : fresh_) known_.erase(value);
  fresh_.clear();
}

void SharedTextTable::Sweep() {
  SQLite::Transaction transaction(db_);
  std::set<std::int64_t> gone;
  SQLite::Statement sweep(
      db_,
      "DELETE FROM shared WHERE id NOT IN (SELECT environment FROM jobs WHERE environment "
      "IS NOT NULL UNION SELECT limits FROM jobs WHERE limits IS NOT NULL UNION SELECT "
      "terms FROM jobs WHERE terms IS NOT NULL) RETURNING id");
  while (sweep.executeStep()) gone.insert(sweep.getColumn(0).getInt64());
  sweep.reset();
  transaction.commit();
  std::erase_if(known_, [&](const auto& entry) { return gone.contains(entry.second.row); });
}

}  // namespace gpuman::jobs
