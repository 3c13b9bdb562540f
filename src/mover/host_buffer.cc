#include "mover/host_buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::size_t kMaxLayout = 64u << 20;
constexpr unsigned kContentBits = 2;
constexpr std::uint32_t kContentMask = (1u << kContentBits) - 1;

// 0: there is no such file.
std::uint64_t InodeOf(const Fd& file) {
  struct stat status {};
  return file.ok() && ::fstat(file.get(), &status) == 0 ? status.st_ino : 0;
}

Fd Reopen(int descriptor) {
  return Fd(::open(fmt::format("/proc/self/fd/{}", descriptor).c_str(), O_RDWR | O_CLOEXEC));
}

// Locks the open file description: the lock ends when the last descriptor of that description is closed.
bool Lock(int descriptor, bool wait) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return ::fcntl(descriptor, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) == 0;
}

// The files without a name, of one of the two kinds, that any thread of the process has open: the shim keeps
// them in a thread with its own table of descriptors.
std::vector<Fd> FilesOf(pid_t pid, const char* name) {
  std::vector<Fd> files;
  const std::string wanted = fmt::format("/memfd:{} (deleted)", name);
  std::error_code error;
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", pid);
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(task.path() / "fd", error)) {
      if (std::filesystem::read_symlink(entry.path(), error) != wanted) continue;
      // O_PATH holds the file without opening it, so that the process cannot put another file in its place
      // meanwhile.
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
  // Accepts only memory files: for any other file, a file system of its owner may take any time to answer.
  if (::fcntl(page, F_GET_SEALS) < 0 || ::fstat(page, &status) != 0 || status.st_size < 4 ||
      static_cast<std::size_t>(status.st_size) > kMaxLayout)
    return Fail(ErrorCode::kCorrupt, "this is no layout");
  std::string text(static_cast<std::size_t>(status.st_size) - 4, '\0');
  if (::pread(page, text.data(), text.size(), 4) != static_cast<ssize_t>(text.size()))
    return FailSystem(errno, "reading a layout");
  return ParseLayout(text);
}

}  // namespace

void HostBuffer::ReadWord() {
  std::uint32_t word = 0;
  if (::pread(page_.get(), &word, sizeof word, 0) != sizeof word) word = 0;
  const std::uint32_t content = word & kContentMask;
  content_ = content > static_cast<std::uint32_t>(Content::kComplete) ? Content::kEmpty
                                                                      : static_cast<Content>(content);
  whole_ = std::min<std::size_t>(word >> kContentBits, layout_.pieces.size());
}

void HostBuffer::Become(Content content) {
  content_ = content;
  whole_ = 0;
  const auto word = static_cast<std::uint32_t>(content);
  (void)!::pwrite(page_.get(), &word, sizeof word, 0);
  if (content != Content::kFilling) at_work_.Close();
}

void HostBuffer::SetWhole(std::size_t pieces) {
  whole_ = pieces;
  const auto word =
      static_cast<std::uint32_t>(pieces << kContentBits) | static_cast<std::uint32_t>(Content::kFilling);
  (void)!::pwrite(page_.get(), &word, sizeof word, 0);
}

Result<HostBuffer> HostBuffer::Make(std::vector<Segment> segments) {
  HostBuffer made;
  made.segments_ = std::move(segments);
  made.page_ = Fd(::memfd_create(kLayoutFile, MFD_CLOEXEC));
  if (!made.page_.ok()) return FailSystem(errno, "making a layout");
  return made;
}

Result<> HostBuffer::Seal(Layout layout) {
  layout_ = std::move(layout);
  layout_.segments.clear();
  for (const Segment& segment : segments_) layout_.segments.push_back({segment.inode(), segment.bytes()});
  const std::string text = SerializeLayout(layout_);
  if (::pwrite(page_.get(), text.data(), text.size(), 4) != static_cast<ssize_t>(text.size()))
    return FailSystem(errno, "writing a layout");
  at_work_ = Reopen(page_.get());
  if (!at_work_.ok() || !Lock(at_work_.get(), false)) return FailSystem(errno, "locking a layout");
  Become(Content::kFilling);
  return {};
}

Result<> HostBuffer::OpenSegments(HostBuffer& found, std::vector<Fd>& files) {
  for (const auto& name : found.layout_.segments) {
    bool got = false;
    for (Fd& file : files) {
      if (InodeOf(file) != name.inode) continue;
      GPUMAN_ASSIGN(auto segment, Segment::Open(std::move(file), name.bytes));
      found.segments_.push_back(std::move(segment));
      got = true;
      break;
    }
    if (!got)
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("host memory of process {} is missing", found.layout_.process.pid));
  }
  return {};
}

std::uint64_t HostBuffer::page_inode() const { return InodeOf(page_); }

Result<std::vector<HostBuffer>> HostBuffer::Find(const base::ProcessId& process, const Known& known) {
  std::vector<HostBuffer> all;
  std::vector<std::uint64_t> seen;  // the process may have several descriptors of a page
  std::vector<Fd> files;
  for (Fd& page : FilesOf(process.pid, kLayoutFile)) {
    auto layout = ReadLayout(page.get());
    const std::uint64_t inode = InodeOf(page);
    if (!layout || layout->process != process || std::ranges::count(seen, inode) != 0 || known(inode))
      continue;
    seen.push_back(inode);
    HostBuffer found;
    found.layout_ = std::move(*layout);
    found.page_ = std::move(page);
    found.ReadWord();
    if (found.content() == Content::kEmpty) continue;
    found.at_work_ = Reopen(found.page_.get());
    if (!found.at_work_.ok() || !Lock(found.at_work_.get(), /*wait=*/true))
      return FailSystem(errno, "waiting for an earlier mover");
    found.ReadWord();  // the value that the earlier mover left
    if (found.content() == Content::kEmpty) continue;
    if (files.empty()) files = FilesOf(process.pid, kSegmentFile);
    GPUMAN_TRY(OpenSegments(found, files));
    if (found.content() == Content::kComplete) found.at_work_.Close();
    all.push_back(std::move(found));
  }
  return all;
}

std::vector<Segment> HostBuffer::Empty() && {
  Become(Content::kEmpty);
  return std::move(segments_);
}

}  // namespace gpuman::mover
