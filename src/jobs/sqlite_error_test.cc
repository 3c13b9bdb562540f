#include "jobs/sqlite_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cerrno>

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using testing::HasSubstr;

base::Error ErrorOf(int code, int number = 0) {
  return ErrorOfSqlite({code, number, "disk I/O error"}, "/var/lib/gpuman/gpuman.db", "writing");
}

TEST(SqliteError, AQuotaThatIsUsedUpAndAFullDiskAreExhaustedWhateverSqliteCallsThem) {
  const auto quota = ErrorOf(SQLITE_IOERR, EDQUOT);
  EXPECT_EQ(quota.code, ErrorCode::kExhausted);
  EXPECT_THAT(quota.message, HasSubstr("writing /var/lib/gpuman/gpuman.db"));
  EXPECT_THAT(quota.message, HasSubstr("quota"));
  EXPECT_THAT(quota.hint, HasSubstr("quota"));
  const auto space = ErrorOf(SQLITE_IOERR, ENOSPC);
  EXPECT_EQ(space.code, ErrorCode::kExhausted);
  EXPECT_THAT(space.message, HasSubstr("No space left"));
  EXPECT_THAT(space.hint, HasSubstr("free space"));
  EXPECT_EQ(ErrorOf(SQLITE_FULL).code, ErrorCode::kExhausted);
}

TEST(SqliteError, OtherFailuresKeepWhatSqliteSays) {
  EXPECT_EQ(ErrorOf(SQLITE_IOERR, EIO).code, ErrorCode::kInternal);
  EXPECT_EQ(ErrorOf(SQLITE_IOERR, EIO).message, "writing /var/lib/gpuman/gpuman.db: disk I/O error");
  EXPECT_EQ(ErrorOf(SQLITE_BUSY, EDQUOT).code, ErrorCode::kUnavailable) << "an errno of another call";
  EXPECT_EQ(ErrorOf(SQLITE_CORRUPT).code, ErrorCode::kCorrupt);
  EXPECT_EQ(ErrorOf(SQLITE_CANTOPEN).code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace gpuman::jobs
