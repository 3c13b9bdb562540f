#include "mover/stowage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::FailSystem;
using base::Fd;
using base::Result;

constexpr std::size_t kMostLayout = 64u << 20;

Fd Reopen(int descriptor) {
  return Fd(::open(fmt::format("/proc/self/fd/{}", descriptor).c_str(), O_RDWR | O_CLOEXEC));
}

// A lock of the open file description: it goes with the last descriptor of who took it.
bool Lock(int descriptor, bool wait) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return ::fcntl(descriptor, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) == 0;
}

// Files without a name of one of the two kinds that any thread of the process has: what its shim keeps is in
// a table of descriptors of its own.
std::vector<Fd> FilesOf(pid_t pid, const char* name) {
  std::vector<Fd> files;
  const std::string wanted = fmt::format("/memfd:{} (deleted)", name);
  std::error_code error;
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", pid);
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(task.path() / "fd", error)) {
      if (std::filesystem::read_symlink(entry.path(), error) != wanted) continue;
      // Held without being opened, so that the process cannot put another file in its place meanwhile.
      const Fd held(::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
      if (!held.ok()) continue;
      Fd file = Reopen(held.get());
      const auto own = fmt::format("/proc/self/fd/{}", file.get());
      if (file.ok() && std::filesystem::read_symlink(own, error) == wanted) files.push_back(std::move(file));
    }
  }
  return files;
}

Result<Layout> ReadLayout(int page) {
  struct stat status {};
  if (::fstat(page, &status) != 0 || status.st_size < 4 ||
      static_cast<std::size_t>(status.st_size) > kMostLayout)
    return Fail(ErrorCode::kCorrupt, "this is no layout");
  std::string text(static_cast<std::size_t>(status.st_size) - 4, '\0');
  if (::pread(page, text.data(), text.size(), 4) != static_cast<ssize_t>(text.size()))
    return FailSystem(errno, "reading a layout");
  return ParseLayout(text);
}

}  // namespace

Content Stowage::content() const {
  std::uint32_t word = 0;
  if (::pread(page_.get(), &word, sizeof word, 0) != sizeof word || word > 2) return Content::kEmpty;
  return static_cast<Content>(word);
}

void Stowage::Become(Content content) {
  const auto word = static_cast<std::uint32_t>(content);
  (void)!::pwrite(page_.get(), &word, sizeof word, 0);
  if (content != Content::kFilling) at_work_.Close();
}

Result<Stowage> Stowage::Make(Layout layout, std::vector<Segment> segments) {
  Stowage made;
  for (const Segment& segment : segments) layout.segments.push_back({segment.inode(), segment.bytes()});
  made.layout_ = std::move(layout);
  made.segments_ = std::move(segments);
  made.page_ = Fd(::memfd_create(kLayoutFile, MFD_CLOEXEC));
  if (!made.page_.ok()) return FailSystem(errno, "making a layout");
  const std::string text = SerializeLayout(made.layout_);
  if (::pwrite(made.page_.get(), text.data(), text.size(), 4) != static_cast<ssize_t>(text.size()))
    return FailSystem(errno, "writing a layout");
  made.at_work_ = Reopen(made.page_.get());
  if (!made.at_work_.ok() || !Lock(made.at_work_.get(), false)) return FailSystem(errno, "locking a layout");
  made.Become(Content::kFilling);
  return made;
}

Result<Stowage> Stowage::Find(const base::ProcessId& process) {
  for (Fd& page : FilesOf(process.pid, kLayoutFile)) {
    auto layout = ReadLayout(page.get());
    if (!layout || layout->process != process) continue;
    Stowage found;
    found.layout_ = std::move(*layout);
    found.page_ = std::move(page);
    if (found.content() == Content::kEmpty) continue;
    found.at_work_ = Reopen(found.page_.get());
    if (!found.at_work_.ok() || !Lock(found.at_work_.get(), /*wait=*/true))
      return FailSystem(errno, "waiting for an earlier mover");
    auto files = FilesOf(process.pid, kSegmentFile);
    for (const auto& name : found.layout_.segments) {
      bool got = false;
      for (Fd& file : files) {
        struct stat status {};
        if (!file.ok() || ::fstat(file.get(), &status) != 0 || status.st_ino != name.inode) continue;
        GPUMAN_ASSIGN(auto segment, Segment::Open(std::move(file), name.bytes));
        found.segments_.push_back(std::move(segment));
        got = true;
        break;
      }
      if (!got)
        return Fail(ErrorCode::kCorrupt, fmt::format("host memory of process {} is missing", process.pid));
    }
    if (found.content() == Content::kComplete) found.at_work_.Close();
    return found;
  }
  return Fail(ErrorCode::kNotFound, fmt::format("process {} has nothing in host memory", process.pid));
}

std::vector<Segment> Stowage::Empty() && {
  Become(Content::kEmpty);
  return std::move(segments_);
}

}  // namespace gpuman::mover
