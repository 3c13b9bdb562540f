// The tables of the store, and the migration of older files. Internal to the store; throws the exceptions of
// SQLiteCpp.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <string>

#include "base/result.h"

namespace gpuman::jobs {

// kCorrupt: the file is damaged.
base::Result<> CheckIntegrity(SQLite::Database& db, const std::filesystem::path& file);
// Migrates the file to schema kStoreVersion, in one transaction. kCorrupt: another program's database;
// kNotSupported: a newer gpuman's.
base::Result<> Migrate(SQLite::Database& db, const std::filesystem::path& file);

// The hint of an error for a file that cannot be used as it is: what to do.
std::string WayOut(const std::filesystem::path& file);

}  // namespace gpuman::jobs
