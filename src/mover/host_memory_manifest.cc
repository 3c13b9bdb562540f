#include "mover/host_memory_manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "base/untrusted_file.h"
#include "mover/chunk_hash.h"

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
  // The name is not enough, as in ledger/find.cc: some file system of the process's owner may have that file.
  const Fd memory(::memfd_create("gpuman-find", MFD_CLOEXEC));
  const std::string wanted = fmt::format("/memfd:{} (deleted)", name);
  std::error_code error;
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", pid);
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(task.path() / "fd", error)) {
      if (std::filesystem::read_symlink(entry.path(), error) != wanted) continue;
      // O_PATH holds the file without opening it, so that the process cannot put another file in its place
      // meanwhile.
      const Fd held(::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
      if (!held.ok() || !base::AreOnOneDevice(held.get(), memory.get())) continue;
      Fd file = Reopen(held.get());
      const auto own = fmt::format("/proc/self/fd/{}", file.get());
      if (file.ok() && std::filesystem::read_symlink(own, error) == wanted) files.push_back(std::move(file));
    }
  }
  return files;
}

// The manifest without its first word.
Result<std::string> ReadText(int manifest) {
  struct stat status {};
  // Accepts only memory files: for any other file, a file system of its owner may take any time to answer.
  if (::fcntl(manifest, F_GET_SEALS) < 0 || ::fstat(manifest, &status) != 0 || status.st_size < 4 ||
      static_cast<std::size_t>(status.st_size) > kMaxLayout)
    return Fail(ErrorCode::kCorrupt, "this is no layout");
  std::string text(static_cast<std::size_t>(status.st_size) - 4, '\0');
  if (::pread(manifest, text.data(), text.size(), 4) != static_cast<ssize_t>(text.size()))
    return FailSystem(errno, "reading a layout");
  return text;
}

}  // namespace

void HostMemoryManifest::ReadWord() {
  std::uint32_t word = 0;
  if (::pread(file_.get(), &word, sizeof word, 0) != sizeof word) word = 0;
  const std::uint32_t content = word & kContentMask;
  content_ = content > static_cast<std::uint32_t>(FillState::kComplete) ? FillState::kEmpty
                                                                        : static_cast<FillState>(content);
  whole_ = std::min<std::size_t>(word >> kContentBits, layout_.pieces.size());
}

// What the manifest does not name is not zeros.
void HostMemoryManifest::ReadZeros() {
  (void)!::pread(file_.get(), zeros_.data(), zeros_.size(), static_cast<off_t>(zeros_at_));
}

void HostMemoryManifest::Become(FillState content) {
  content_ = content;
  whole_ = 0;
  const auto word = static_cast<std::uint32_t>(content);
  (void)!::pwrite(file_.get(), &word, sizeof word, 0);
  if (content != FillState::kFilling) at_work_.Close();
}

void HostMemoryManifest::SetWhole(std::size_t pieces) {
  whole_ = pieces;
  const auto word =
      static_cast<std::uint32_t>(pieces << kContentBits) | static_cast<std::uint32_t>(FillState::kFilling);
  (void)!::pwrite(file_.get(), &word, sizeof word, 0);
}

Result<HostMemoryManifest> HostMemoryManifest::Make() {
  HostMemoryManifest made;
  made.file_ = Fd(::memfd_create(kLayoutFile, MFD_CLOEXEC));
  if (!made.file_.ok()) return FailSystem(errno, "making a layout");
  return made;
}

void HostMemoryManifest::SetLayout(Layout layout) {
  layout_ = std::move(layout);
  first_chunk_.clear();
  std::size_t chunks = 0;
  for (const Piece& piece : layout_.pieces) {
    first_chunk_.push_back(chunks);
    chunks += piece.bytes / kChunk;
  }
  zeros_.assign((chunks + 7) / 8, 0);
  zeros_at_ = 4 + SerializeLayout(layout_).size();
}

void HostMemoryManifest::SetZeros(std::size_t piece, const std::vector<bool>& chunks) {
  const std::size_t first = first_chunk_[piece];
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto bit = static_cast<std::uint8_t>(1u << (first + i) % 8);
    auto& byte = zeros_[(first + i) / 8];
    byte = static_cast<std::uint8_t>(chunks[i] ? byte | bit : byte & ~bit);
  }
  const std::size_t begin = first / 8, end = (first + chunks.size() + 7) / 8;
  if (begin == end) return;
  (void)!::pwrite(file_.get(), &zeros_[begin], end - begin, static_cast<off_t>(zeros_at_ + begin));
}

std::vector<bool> HostMemoryManifest::Zeros(std::size_t piece) const {
  std::vector<bool> chunks(layout_.pieces[piece].bytes / kChunk);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    chunks[i] = zeros_[(first_chunk_[piece] + i) / 8] >> (first_chunk_[piece] + i) % 8 & 1;
  return chunks;
}

Result<> HostMemoryManifest::Seal(Layout layout) {
  SetLayout(std::move(layout));
  const std::string text = SerializeLayout(layout_);
  if (::pwrite(file_.get(), text.data(), text.size(), 4) != static_cast<ssize_t>(text.size()))
    return FailSystem(errno, "writing a layout");
  at_work_ = Reopen(file_.get());
  if (!at_work_.ok() || !Lock(at_work_.get(), /*wait=*/false)) return FailSystem(errno, "locking a layout");
  Become(FillState::kFilling);
  return {};
}

std::uint64_t HostMemoryManifest::inode() const { return InodeOf(file_); }

namespace {

// The segments that the layout names. Pages of one process may name the same segment.
Result<std::vector<Segment>> OpenSegments(const Layout& layout, const std::vector<Fd>& files) {
  std::vector<Segment> segments;
  for (const auto& name : layout.segments) {
    const auto file = std::ranges::find(files, name.inode, InodeOf);
    if (file == files.end())
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("host memory of process {} is missing", layout.process.pid));
    GPUMAN_ASSIGN(auto segment, Segment::Open(Reopen(file->get()), name.bytes));
    segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace

Result<std::vector<HostMemoryManifest::Found>> HostMemoryManifest::Find(const base::ProcessId& process,
                                                                        const InodePredicate& known) {
  std::vector<Found> all;
  std::vector<std::uint64_t> seen;  // the process may have several descriptors of a manifest
  std::vector<Fd> files;
  for (Fd& file : FilesOf(process.pid, kLayoutFile)) {
    const auto text = ReadText(file.get());
    auto layout = text ? ParseLayout(*text) : Fail(text.error());
    const std::uint64_t inode = InodeOf(file);
    if (!layout || layout->process != process || std::ranges::count(seen, inode) != 0 || known(inode))
      continue;
    seen.push_back(inode);
    HostMemoryManifest manifest;
    manifest.SetLayout(std::move(*layout));
    manifest.file_ = std::move(file);
    manifest.ReadWord();
    if (manifest.content() == FillState::kEmpty) continue;
    manifest.at_work_ = Reopen(manifest.file_.get());
    if (!manifest.at_work_.ok() || !Lock(manifest.at_work_.get(), /*wait=*/true))
      return FailSystem(errno, "waiting for an earlier mover");
    manifest.ReadWord();  // the value that the earlier mover left
    if (manifest.content() == FillState::kEmpty) continue;
    manifest.ReadZeros();
    if (files.empty()) files = FilesOf(process.pid, kSegmentFile);
    GPUMAN_ASSIGN(auto segments, OpenSegments(manifest.layout(), files));
    if (manifest.content() == FillState::kComplete) manifest.at_work_.Close();
    all.push_back({std::move(manifest), std::move(segments)});
  }
  return all;
}

}  // namespace gpuman::mover
