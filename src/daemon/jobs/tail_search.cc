#include "daemon/jobs/tail_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gpuman::daemon {
namespace {

constexpr off_t kPiece = 64 << 10;

}  // namespace

TailSearch::TailSearch(int fd, std::size_t lines) : fd_(fd), lines_(lines) {
  struct stat status {};
  if (::fstat(fd, &status) == 0) end_ = at_ = status.st_size;
}

std::optional<off_t> TailSearch::Search(std::size_t pieces) {
  if (lines_ == 0) return end_;
  for (; at_ > 0 && pieces > 0; --pieces) {
    const off_t begin = std::max<off_t>(0, at_ - kPiece);
    if (IsHole(begin)) {
      PassHole(begin);
      continue;
    }
    piece_.resize(static_cast<std::size_t>(at_ - begin));
    const ssize_t n = ::pread(fd_, piece_.data(), piece_.size(), begin);
    if (n <= 0) return 0;
    for (off_t i = static_cast<off_t>(n) - 1; i >= 0; --i) {
      // No line begins after the end of the last line.
      if (piece_[static_cast<std::size_t>(i)] == '\n' && begin + i + 1 != end_ && ++seen_ == lines_)
        return begin + i + 1;
    }
    at_ = begin;
  }
  return at_ > 0 ? std::nullopt : std::optional<off_t>(0);
}

// Whether all is a hole from `begin` to the place of the search. A file system without holes reports all as
// data.
bool TailSearch::IsHole(off_t begin) const {
  const off_t data = ::lseek(fd_, begin, SEEK_DATA);
  return data < 0 ? errno == ENXIO : data >= at_;
}

// Continues the search at `begin`, or further in front, in steps that double while all that they pass is a
// hole.
void TailSearch::PassHole(off_t begin) {
  for (off_t step = kPiece; IsHole(begin); step *= 2) {
    at_ = begin;
    if (begin == 0) return;
    begin = std::max<off_t>(0, begin - step);
  }
}

}  // namespace gpuman::daemon
