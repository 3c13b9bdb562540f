// Copies on a simulated bus that carries one byte a second: none of them ends while the test runs.
#include "mover/copy_stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>

#include "gpus_fixture.h"

namespace gpuman::mover {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;
constexpr std::size_t kPieces = 300;

class CopyStreamTest : public GpusTest {};

// The process hands its memory over only after all copies were added, so Add must not wait for a copy. A
// stream waits for its copies when it closes: so the test ends its process, which has no other test.
TEST_F(CopyStreamTest, AStreamTakesAnyNumberOfPiecesBeforeTheFirstIsCopied) {
  auto memory = gpus->Create(0, kBytes);
  ASSERT_TRUE(memory);
  const auto host = static_cast<std::byte*>(std::aligned_alloc(4096, kBytes));
  ASSERT_TRUE(gpus->Register(host, kBytes));  // otherwise the driver copies before the call returns
  auto stream = CopyStream::Open(*gpus, 0, Direction::kOut);
  ASSERT_TRUE(stream);
  const std::array copies{Copy{memory->address(), host, kBytes}};
  for (std::size_t i = 0; i < kPieces; ++i) ASSERT_TRUE(stream->Add(copies));
  EXPECT_EQ(stream->waiting(), kPieces);
  ::_exit(HasFailure() ? 1 : 0);
}

}  // namespace
}  // namespace gpuman::mover
