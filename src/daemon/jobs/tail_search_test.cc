#include "daemon/jobs/tail_search.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

class TailSearchTest : public testing::Test {
 protected:
  TailSearchTest() {
    auto file = base::OpenFile(dir_.path() / "log", O_RDWR | O_CREAT);
    EXPECT_TRUE(file);
    file_ = std::move(*file);
  }
  void Put(off_t at, const std::string& text) {
    ASSERT_EQ(::pwrite(file_.get(), text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
  }
  // How many steps of one piece it takes, and where the lines begin.
  std::pair<int, off_t> Find(std::size_t lines) {
    TailSearch search(file_.get(), lines);
    for (int steps = 1;; ++steps)
      if (const auto begin = search.Search(1)) return {steps, *begin};
  }

  base::TempDir dir_;
  base::Fd file_;
};

TEST_F(TailSearchTest, FindsTheLastLines) {
  Put(0, "one\ntwo\nthree\n");
  EXPECT_EQ(Find(1).second, 8);
  EXPECT_EQ(Find(2).second, 4);
  EXPECT_EQ(Find(3).second, 0);
  EXPECT_EQ(Find(30).second, 0);
  EXPECT_EQ(Find(0).second, 14);
  Put(14, "four");
  EXPECT_EQ(Find(1).second, 14) << "a line without its end is one";
}

TEST_F(TailSearchTest, AnEmptyFileHasNone) { EXPECT_EQ(Find(3), (std::pair<int, off_t>(1, 0))); }

TEST_F(TailSearchTest, LooksThroughLinesThatAreLongerThanAPiece) {
  Put(0, "first\n" + std::string(300 << 10, 'x') + "\nlast\n");
  EXPECT_EQ(Find(2).second, 6);
  EXPECT_EQ(Find(3).second, 0);
}

// A user makes such a file by one call.
TEST_F(TailSearchTest, PassesOverHolesHoweverLong) {
  constexpr off_t kHuge = off_t{1} << 43;
  Put(0, "one\ntwo\n");
  ASSERT_EQ(::ftruncate(file_.get(), kHuge), 0);
  // Piece by piece there are 2^27 of them.
  EXPECT_LT(Find(2).first, 1000);
  EXPECT_EQ(Find(2).second, 4) << "the hole is the last line";
  Put(kHuge / 2, "middle\n");
  EXPECT_EQ(Find(2).second, 8) << "a line that begins with a hole";
  EXPECT_EQ(Find(1).second, kHuge / 2 + 7);
  EXPECT_LT(Find(3).first, 1000);
  EXPECT_EQ(Find(3).second, 4);
  Put(kHuge, "end\n");
  EXPECT_EQ(Find(1).second, kHuge / 2 + 7);
}

}  // namespace
}  // namespace gpuman::daemon
