#include "keeper/held_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;

constexpr std::size_t kPage = 4096;

base::Result<std::size_t> HeldSizeOf(int file) {
  if (file < 0) return base::Fail(ErrorCode::kInvalidArgument, "no file to hold came");
  struct stat status {};
  if (::fstat(file, &status) != 0) return base::FailSystem(errno, "looking at the file to hold");
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > kMaxHeld)
    return base::Fail(ErrorCode::kInvalidArgument, "the file to hold is no regular file, or it is too large");
  return static_cast<std::size_t>(status.st_size);
}

// Pages of zeros are left out, so that the copy takes little of the disk. The size does not change: who gave
// the file has sealed it; from one that shrinks there is less to read.
base::Result<> Copy(int from, int to, std::size_t size) {
  std::array<char, kPage> page;
  if (::ftruncate(to, static_cast<off_t>(size)) != 0) return base::FailSystem(errno, "making the saved file");
  for (std::size_t at = 0; at < size; at += kPage) {
    const ssize_t n = ::pread(from, page.data(), std::min(kPage, size - at), static_cast<off_t>(at));
    if (n < 0) return base::FailSystem(errno, "reading the held file");
    const auto end = page.begin() + n;
    if (std::all_of(page.begin(), end, [](char byte) { return byte == 0; })) continue;
    if (::pwrite(to, page.data(), static_cast<std::size_t>(n), static_cast<off_t>(at)) != n)
      return base::FailSystem(errno, "writing the saved file");
  }
  return {};
}

}  // namespace

base::Result<> CheckHeld(int file) {
  GPUMAN_TRY(HeldSizeOf(file));
  return {};
}

// Under another name first: a keeper that is killed meanwhile leaves no half of it.
base::Result<> SaveHeld(int file, const std::filesystem::path& job_dir) {
  GPUMAN_ASSIGN(const std::size_t size, HeldSizeOf(file));
  const auto path = job_dir / kHeldFile;
  const auto fresh = job_dir / (std::string(kHeldFile) + ".new");
  GPUMAN_ASSIGN(const base::Fd to, base::OpenFile(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  auto saved = Copy(file, to.get(), size);
  if (saved && ::rename(fresh.c_str(), path.c_str()) != 0)
    saved = base::FailSystem(errno, fmt::format("naming {}", path.string()));
  if (!saved) ::unlink(fresh.c_str());
  return saved;
}

void RemoveSavedHeld(const std::filesystem::path& job_dir) { ::unlink((job_dir / kHeldFile).c_str()); }

}  // namespace gpuman::keeper
