#include "keeper/output_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/file.h"

namespace gpuman::keeper {
namespace {

constexpr std::uint64_t kReservedPart = 50;  // of the disk, one part in so many
constexpr base::Bytes kMaxReserved = base::MiB(256);
constexpr base::Bytes kShortLog = base::KiB(16);

base::Bytes Reserved(base::Bytes total) {
  return std::min(base::Bytes{total.count / kReservedPart}, kMaxReserved);
}

// The kernel's form of an access control list, in the extended attribute system.posix_acl_access
// (linux/posix_acl_xattr.h).
struct AclEntry {
  std::uint16_t tag, permissions;
  std::uint32_t id;
};
struct Acl {
  std::uint32_t version = 2;
  std::array<AclEntry, 5> entries;
};

// The owner writes; `user` and the file's group read.
base::Result<> LetRead(int fd, uid_t user) {
  constexpr std::uint32_t kNobody = ~0u;
  const Acl acl{
      .entries = {
          {{0x01, 6, kNobody}, {0x02, 4, user}, {0x04, 4, kNobody}, {0x10, 4, kNobody}, {0x20, 0, kNobody}}}};
  if (::fsetxattr(fd, "system.posix_acl_access", &acl, sizeof acl, 0) != 0)
    return base::FailSystem(errno, "setting the access control list");
  return {};
}

}  // namespace

bool MayGrow(base::Bytes size, base::Bytes free, base::Bytes total) {
  const auto reserved = Reserved(total);
  return free >= reserved || (size < kShortLog && free.count >= reserved.count / 2);
}

base::Result<> OutputLog::Open() {
  if (fd_.ok()) return {};
  // O_NONBLOCK and O_NOFOLLOW: the user who owns the file may have put a fifo or a link in its place.
  GPUMAN_ASSIGN(base::Fd fd, base::OpenFile(settings_.path,
                                            O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0640));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0)
    return base::FailSystem(errno, fmt::format("opening {}", settings_.path.string()));
  if (!S_ISREG(status.st_mode))
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("{} is not a regular file", settings_.path.string()));
  if (::geteuid() == 0) {
    const auto own = [&](uid_t owner) -> base::Result<> {
      if ((status.st_uid != owner || status.st_gid != gid_) && ::fchown(fd.get(), owner, gid_) != 0)
        return base::FailSystem(errno, fmt::format("giving {} to its user", settings_.path.string()));
      return {};
    };
    GPUMAN_TRY(own(0));
    if (uid_ != 0 && !LetRead(fd.get(), uid_)) {
      status.st_uid = 0;
      GPUMAN_TRY(own(uid_));
    }
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  fd_ = std::move(fd);
  return {};
}

void OutputLog::Write(std::string_view data) {
  LeaveDeleted();
  while (!data.empty()) {
    const std::uint64_t limit = settings_.size_limit.count;
    std::string_view piece = data;
    if (limit > 0) {
      if (size_ >= limit && fd_.ok()) Rotate();
      const std::uint64_t room = size_ < limit ? limit - size_ : limit;
      if (piece.size() > room) {
        piece = data.substr(0, static_cast<std::size_t>(room));
        // Cuts after a line where the piece holds a line end.
        if (const auto newline = piece.rfind('\n'); newline != std::string_view::npos)
          piece = piece.substr(0, newline + 1);
        else if (size_ > 0 && at_line_start_) {
          Rotate();
          continue;
        }
      }
    }
    lost_ += piece.size() - Append(piece);
    data.remove_prefix(piece.size());
    if (!data.empty()) Rotate();
  }
}

void OutputLog::Note(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  Write(fmt::format("{}gpuman {}: {}\n", at_line_start_ ? "" : "\n", base::FormatIso8601(clock_->Wall()),
                    line));
}

void OutputLog::SetLimits(base::Bytes size_limit, std::uint32_t rotations) {
  settings_.size_limit = size_limit;
  settings_.rotations = rotations;
}

// Closes a deleted file: no user could read its text, and the file would take room on the disk.
void OutputLog::LeaveDeleted() {
  struct stat status {};
  if (!fd_.ok() || ::fstat(fd_.get(), &status) != 0 || status.st_nlink > 0) return;
  fd_.Close();
  size_ = 0;
  at_line_start_ = true;
}

std::size_t OutputLog::Append(std::string_view data) {
  if (auto opened = Open(); !opened) {
    lost_why_ = opened.error().message;
    return 0;
  }
  if (auto why = Withheld(); !why.empty()) {
    lost_why_ = std::move(why);
    if (!std::exchange(withheld_, true)) Say(fmt::format("output is dropped from here on: {}", lost_why_));
    return 0;
  }
  withheld_ = false;
  if (lost_ > 0 && Say(fmt::format("{} bytes of output are lost: {}", lost_, lost_why_))) lost_ = 0;
  const ssize_t n = ::write(fd_.get(), data.data(), data.size());
  if (n < static_cast<ssize_t>(data.size()))
    lost_why_ = base::SystemError(n < 0 ? errno : ENOSPC, settings_.path.string()).message;
  if (n <= 0) return 0;
  const auto written = static_cast<std::size_t>(n);
  size_ += written;
  at_line_start_ = data[written - 1] == '\n';
  return written;
}

bool OutputLog::Say(std::string_view text) {
  const std::string line =
      fmt::format("{}gpuman {}: {}\n", at_line_start_ ? "" : "\n", base::FormatIso8601(clock_->Wall()), text);
  const ssize_t n = ::write(fd_.get(), line.data(), line.size());
  if (n != static_cast<ssize_t>(line.size())) return false;
  size_ += line.size();
  at_line_start_ = true;
  return true;
}

std::string OutputLog::Withheld() const {
  struct statvfs disk {};
  if (::geteuid() != 0 || ::fstatvfs(fd_.get(), &disk) != 0) return {};
  const base::Bytes free{disk.f_bavail * disk.f_frsize}, total{disk.f_blocks * disk.f_frsize};
  if (MayGrow(base::Bytes{size_}, free, total)) return {};
  return fmt::format("the disk of {} has {} left, which are kept for gpuman's own records",
                     settings_.path.string(), base::FormatBytes(free));
}

std::filesystem::path OutputLog::Part(std::uint32_t number) const {
  auto part = settings_.path;
  if (number > 0) part += fmt::format(".{}", number);
  return part;
}

void OutputLog::Rotate() {
  if (!fd_.ok() || size_ == 0) return;
  bool moved = settings_.rotations > 0;
  for (std::uint32_t number = settings_.rotations; number > 0; --number)
    if (::rename(Part(number - 1).c_str(), Part(number).c_str()) != 0 && errno != ENOENT) moved = false;
  // The old part cannot be kept; the limit holds all the same.
  if (moved || ::ftruncate(fd_.get(), 0) != 0) fd_.Close();
  size_ = 0;
}

}  // namespace gpuman::keeper
