#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace gpuman::base {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "odd", "give an even number");
  return n / 2;
}
Result<int> Quarter(int n) {
  GPUMAN_ASSIGN(const int half, Half(n));
  return Half(half);
}
Result<> Check(int n) {
  GPUMAN_TRY(Quarter(n));
  return {};
}

TEST(Result, TheFirstErrorIsReturnedThroughEveryCaller) {
  EXPECT_EQ(Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message, "odd");
  EXPECT_TRUE(Check(4));
  EXPECT_EQ(Check(3).error().hint, "give an even number");
}

TEST(Error, ContextReadsAsASentenceFromOutsideIn) {
  EXPECT_EQ((Error{ErrorCode::kInternal, "no space left"}.In("writing the journal").In("job 7").message),
            "job 7: writing the journal: no space left");
}

TEST(ErrorCode, EveryWordReadsBack) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(ErrorCodeFromString(ToString(code)), code);
  }
}

TEST(SystemError, TheNumberChoosesTheCode) {
  EXPECT_EQ(SystemError(ENOENT, "opening x").code, ErrorCode::kNotFound);
  EXPECT_EQ(SystemError(EROFS, "x").code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(SystemError(ENOSPC, "x").code, ErrorCode::kExhausted);
  EXPECT_EQ(SystemError(ENOENT, "opening x").message, "opening x: No such file or directory");
}

}  // namespace
}  // namespace gpuman::base
