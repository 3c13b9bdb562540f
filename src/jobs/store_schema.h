// The tables of the store and how older files come to have them. Internal to the store; throws what SQLiteCpp
// throws.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <string>

#include "base/result.h"

namespace gpuman::jobs {

// kCorrupt: the file is damaged.
base::Result<> CheckIntegrity(SQLite::Database& db, const std::filesystem::path& file);
// Brings the file to schema kStoreVersion, in one transaction. kCorrupt: another program's database;
// kNotSupported: a newer gpuman's.
base::Result<> Migrate(SQLite::Database& db, const std::filesystem::path& file);

// What to do when the file cannot be used as it is: the hint of such an error.
std::string WayOut(const std::filesystem::path& file);

}  // namespace gpuman::jobs
