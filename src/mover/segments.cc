#include "mover/segments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/units.h"
#include "mover/host_memory.h"
#include "mover/layout.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::FailSystem;
using base::Result;

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14

Result<> Touch(std::uint8_t* at, std::uint64_t bytes) {
  if (::madvise(at, bytes, kPopulateWrite) == 0) return {};
  if (errno != EINVAL) return FailSystem(errno, "taking host memory");
  for (std::uint64_t i = 0; i < bytes; i += 4096) *const_cast<volatile std::uint8_t*>(at + i) = 0;
  return {};
}

}  // namespace

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  std::swap(at_, other.at_);
  std::swap(registered_, other.registered_);
  return *this;
}

Segment::~Segment() {
  if (registered_) registered_->Unregister(at_);
  if (at_) ::munmap(at_, bytes_);
}

Result<> Segment::MapIt() {
  void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (at == MAP_FAILED) return FailSystem(errno, "mapping host memory");
  ::madvise(at, bytes_, MADV_DONTDUMP);  // core files do not contain the device's memory either
  at_ = static_cast<std::uint8_t*>(at);
  return {};
}

Result<Segment> Segment::Make(std::uint64_t bytes, const Gpus& gpus) {
  if (!HostHas(bytes))
    return Fail(ErrorCode::kExhausted, fmt::format("the machine has too little memory available for {} more",
                                                   base::FormatBytes(base::Bytes{bytes})));
  Segment segment;
  segment.bytes_ = bytes;
  segment.file_ = base::Fd(::memfd_create(kSegmentFile, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.file_.ok()) return FailSystem(errno, "making host memory");
  if (::ftruncate(segment.file_.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(segment.file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return FailSystem(errno, "sizing host memory");
  GPUMAN_TRY(segment.MapIt());
  ::madvise(segment.at_, bytes, MADV_HUGEPAGE);
  GPUMAN_TRY(Touch(segment.at_, bytes));
  if (gpus.Register(segment.at_, bytes)) segment.registered_ = &gpus;
  return segment;
}

Result<Segment> Segment::Open(base::Fd file, std::uint64_t bytes) {
  struct stat status {};
  // Checks first that the file is a memory file: for any other file, a file system of its owner could take
  // any time to answer.
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != bytes)
    return Fail(ErrorCode::kCorrupt, "this is no segment of host memory");
  Segment segment;
  segment.file_ = std::move(file);
  segment.bytes_ = bytes;
  GPUMAN_TRY(segment.MapIt());
  return segment;
}

std::uint64_t Segment::inode() const {
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 ? status.st_ino : 0;
}

Pool::Pool(Gpus& gpus) : gpus_(gpus), thread_([this] { Prepare(); }) {}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<std::vector<Segment>> Pool::Take(const std::vector<std::uint64_t>& sizes) {
  std::vector<std::optional<Segment>> places(sizes.size());
  std::vector<std::size_t> missing;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto ready = std::find_if(free_.begin(), free_.end(),
                                      [&](const Segment& one) { return one.bytes() == sizes[i]; });
      taken_ += sizes[i];
      if (ready == free_.end()) {
        missing.push_back(i);
        continue;
      }
      places[i] = std::move(*ready);
      free_.erase(ready);
    }
    refused_ = false;
  }
  std::mutex errors;
  std::optional<base::Error> error;
  InParallel(missing.size(), [&](std::size_t i) {
    (void)gpus_.Use(gpus_.Find(gpu_).value_or(0));
    auto made = Segment::Make(sizes[missing[i]], gpus_);
    const std::lock_guard lock(errors);
    if (made)
      places[missing[i]] = std::move(*made);
    else
      error = made.error();
  });
  std::vector<Segment> segments;
  for (auto& place : places)
    if (place) segments.push_back(std::move(*place));
  if (!error) return segments;
  {
    const std::lock_guard lock(mutex_);
    for (const std::size_t i : missing)
      if (!places[i]) taken_ -= sizes[i];
  }
  Give(std::move(segments));
  return Fail(*error);
}

void Pool::Give(std::vector<Segment> segments) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& segment : segments) {
      taken_ -= std::min(taken_, segment.bytes());
      free_.push_back(std::move(segment));
    }
  }
  changed_.notify_all();
}

void Pool::Want(std::uint64_t bytes, const std::string& gpu) {
  {
    const std::lock_guard lock(mutex_);
    if (wanted_ == bytes && gpu_ == gpu) return;
    wanted_ = bytes;
    gpu_ = gpu;
    refused_ = false;
  }
  changed_.notify_all();
}

std::uint64_t Pool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Segment& segment : free_) sum += segment.bytes();
  return sum;
}

void Pool::Prepare() {
  constexpr std::uint64_t kSlack = 2 * kSegment;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    std::uint64_t there = taken_;
    for (const Segment& segment : free_) there += segment.bytes();
    if (there < wanted_ && !refused_) {
      const auto sizes = SegmentSizes(wanted_ - there);
      const std::string gpu = gpu_;
      lock.unlock();
      InParallel(std::min<std::size_t>(sizes.size(), 4), [&](std::size_t i) {
        (void)gpus_.Use(gpus_.Find(gpu).value_or(0));
        auto made = Segment::Make(sizes[i], gpus_);
        const std::lock_guard guard(mutex_);
        if (made)
          free_.push_back(std::move(*made));
        else
          refused_ = true;
      });
      lock.lock();
    } else if (!free_.empty() && there > wanted_ + kSlack) {
      std::optional<Segment> last(std::move(free_.back()));
      free_.pop_back();
      const std::string gpu = gpu_;
      lock.unlock();
      (void)gpus_.Use(gpus_.Find(gpu).value_or(0));
      last.reset();  // freeing the segment takes some time
    } else {
      changed_.wait(lock);
    }
    if (!lock.owns_lock()) lock.lock();
  }
}

}  // namespace gpuman::mover
