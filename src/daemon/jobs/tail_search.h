// Searches in steps where the last lines of a file begin, because its user can make the file as long as a
// file can be. The search passes over holes: they have no lines, and a user makes a large hole at no cost.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

namespace gpuman::daemon {

class TailSearch {
 public:
  // The descriptor stays open as long as this object.
  TailSearch(int fd, std::size_t lines);
  // Looks through at most `pieces` more pieces of 64 KiB; nullopt: there are more to look through.
  std::optional<off_t> Search(std::size_t pieces);

 private:
  bool IsHole(off_t begin) const;
  void PassHole(off_t begin);

  int fd_;
  std::size_t lines_;
  std::size_t seen_ = 0;
  off_t end_ = 0, at_ = 0;
  std::string piece_;
};

}  // namespace gpuman::daemon
