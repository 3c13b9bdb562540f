#include "mover/segments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/numa.h"
#include "base/units.h"
#include "mover/layout.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::FailSystem;
using base::Result;

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr int kCollapse = 25;       // MADV_COLLAPSE, Linux 6.1
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

// By default the kernel gives files no huge pages on the first touch, but makes one of a page that is there
// when it is asked to: touching then takes a tenth of the time (measured). Small pages serve as well, only
// slower.
void MakeHugePages(std::uint8_t* at, std::uint64_t bytes) {
  ::madvise(at, bytes, MADV_HUGEPAGE);
  for (std::uint64_t i = 0; i < bytes; i += kHugePage) {
    if (::madvise(at + i, 1, kPopulateWrite) != 0) return;
  }
  ::madvise(at, bytes, kCollapse);
}

// Maps the file at an address at which it can have huge pages; nullptr: see errno.
std::uint8_t* MapAligned(int file, std::uint64_t bytes) {
  const std::uint64_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const room =
      ::mmap(nullptr, whole + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::uint8_t*>(room);
  const std::uint64_t before = -reinterpret_cast<std::uintptr_t>(room) % kHugePage;
  std::uint8_t* const at = begin + before;
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, whole + kHugePage);
    errno = error;
    return nullptr;
  }
  if (before != 0) ::munmap(begin, before);
  ::munmap(at + whole, kHugePage - before);
  return at;
}

// The same file by an open file description of its own.
Result<base::Fd> Reopen(int descriptor) {
  base::Fd file(::open(fmt::format("/proc/self/fd/{}", descriptor).c_str(), O_RDWR | O_CLOEXEC));
  if (!file.ok()) return FailSystem(errno, "opening host memory");
  return file;
}

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
  std::swap(node_, other.node_);
  std::swap(at_, other.at_);
  std::swap(registered_, other.registered_);
  return *this;
}

Segment::~Segment() {
  if (registered_) registered_->Unregister(at_);
  if (at_) ::munmap(at_, bytes_);
}

Result<> Segment::MapIt() {
  at_ = MapAligned(file_.get(), bytes_);
  if (at_ == nullptr) return FailSystem(errno, "mapping host memory");
  ::madvise(at_, bytes_, MADV_DONTDUMP);  // core files do not contain the device's memory either
  return {};
}

Result<Segment> Segment::Make(std::uint64_t bytes, std::optional<int> node, const Gpus& gpus) {
  Segment segment;
  segment.bytes_ = bytes;
  segment.node_ = node;
  const base::Fd made(::memfd_create(kSegmentFile, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.ok()) return FailSystem(errno, "making host memory");
  if (::ftruncate(made.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return FailSystem(errno, "sizing host memory");
  // The kernel does not count the description of memfd_create among the writers, which IsOursAlone asks for.
  GPUMAN_ASSIGN(segment.file_, Reopen(made.get()));
  GPUMAN_TRY(segment.MapIt());
  // Memory that the kernel does not put there serves as well, only slower.
  if (node) (void)base::PreferNode(segment.at_, bytes, *node);
  MakeHugePages(segment.at_, bytes);
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

Result<base::Fd> Segment::OpenForOthers() const { return Reopen(file_.get()); }

// The kernel grants a lease for writing only where the file is open nowhere else, mappings included. Nobody
// can open the file meanwhile but by a descriptor of it.
bool Segment::IsOursAlone() const {
  if (::fcntl(file_.get(), F_SETLEASE, F_WRLCK) != 0) return false;
  ::fcntl(file_.get(), F_SETLEASE, F_UNLCK);
  return true;
}

std::uint64_t Segment::inode() const {
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 ? status.st_ino : 0;
}

SegmentPool::SegmentPool(Gpus& gpus, HasRoom has_room)
    : gpus_(gpus), has_room_(std::move(has_room)), thread_([this] { Prepare(); }) {}

SegmentPool::~SegmentPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// First from the node, then from any other: memory that is ready there is better than none. mutex_ is held.
std::optional<Segment> SegmentPool::TakeFree(NodeId node, std::uint64_t bytes) {
  const auto take = [&](Node& from) -> std::optional<Segment> {
    const auto found = std::ranges::find(from.free, bytes, &Segment::bytes);
    if (found == from.free.end()) return std::nullopt;
    std::optional<Segment> segment(std::move(*found));
    from.free.erase(found);
    ++from.taken[bytes];
    return segment;
  };
  if (auto segment = take(nodes_[node])) return segment;
  for (auto& [other, from] : nodes_)
    if (auto segment = take(from)) return segment;
  return std::nullopt;
}

// Waits for a segment that the thread is making, and that this Take has claimed; nullopt: it came to nothing.
std::optional<Segment> SegmentPool::AwaitMade(NodeId node, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  std::optional<Segment> segment;
  made_.wait(lock, [&] { return (segment = TakeFree(node, bytes)) || !making_ || ending_; });
  return segment;
}

Result<Segment> SegmentPool::Make(NodeId node, std::uint64_t bytes) {
  if (has_room_(bytes)) return Segment::Make(bytes, node, gpus_);
  return Fail(ErrorCode::kExhausted, fmt::format("the machine has too little memory available for {} more",
                                                 base::FormatBytes(base::Bytes{bytes})));
}

// Segments of all sizes are made ahead, as long as the machine has room. Without this, those that nobody asks
// for would keep out the one that somebody needs.
Result<Segment> SegmentPool::MakeInPlaceOfFree(NodeId node, std::uint64_t bytes) {
  for (;;) {
    auto made = Make(node, bytes);
    if (made || made.error().code != ErrorCode::kExhausted) return made;
    std::optional<Segment> given_up;
    {
      const std::lock_guard lock(mutex_);
      refused_ = true;  // the thread makes none meanwhile
      if (auto free = TakeFree(node, bytes)) {
        --nodes_[free->node()].taken[bytes];  // the caller has counted it
        return std::move(*free);
      }
      given_up = LargestFree();
    }
    if (!given_up) return made;
  }
}

// mutex_ is held.
std::optional<Segment> SegmentPool::LargestFree() {
  std::vector<Segment>* from = nullptr;
  std::vector<Segment>::iterator largest;
  for (auto& [id, node] : nodes_) {
    const auto one = std::ranges::max_element(node.free, {}, &Segment::bytes);
    if (one == node.free.end() || (from != nullptr && one->bytes() <= largest->bytes())) continue;
    from = &node.free;
    largest = one;
  }
  if (from == nullptr) return std::nullopt;
  std::optional<Segment> segment(std::move(*largest));
  from->erase(largest);
  return segment;
}

void SegmentPool::Undo(NodeId node, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& count = nodes_[node].taken[bytes];
  if (count > 0) --count;
}

Result<std::vector<Segment>> SegmentPool::Take(int gpu, const std::vector<std::uint64_t>& sizes) {
  const NodeId node = gpus_.HostNode(gpu);
  std::vector<std::optional<Segment>> places(sizes.size());
  std::vector<std::size_t> missing, coming;
  {
    const std::lock_guard lock(mutex_);
    gpu_ = gpu;
    Stock& making = nodes_[node].making;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if ((places[i] = TakeFree(node, sizes[i]))) continue;
      if (auto& count = making[sizes[i]]; count > 0) {
        --count;
        coming.push_back(i);
        continue;
      }
      missing.push_back(i);
      ++nodes_[node].taken[sizes[i]];
    }
    refused_ = false;
  }
  std::mutex errors;
  std::optional<base::Error> error;
  const auto make = [&](std::size_t i) {
    (void)gpus_.Use(gpu);
    auto made = MakeInPlaceOfFree(node, sizes[i]);
    if (!made) Undo(node, sizes[i]);
    const std::lock_guard lock(errors);
    if (made)
      places[i] = std::move(*made);
    else
      error = made.error();
  };
  InParallel(missing.size(), [&](std::size_t i) { make(missing[i]); });
  for (const std::size_t i : coming) {
    if ((places[i] = AwaitMade(node, sizes[i]))) continue;
    {
      const std::lock_guard lock(mutex_);
      ++nodes_[node].taken[sizes[i]];
    }
    make(i);
  }
  std::vector<Segment> segments;
  for (auto& place : places)
    if (place) segments.push_back(std::move(*place));
  if (!error) return segments;
  Give(std::move(segments));
  return Fail(*error);
}

void SegmentPool::Give(std::vector<Segment> segments) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& segment : segments) {
      Node& node = nodes_[segment.node()];
      auto& taken = node.taken[segment.bytes()];
      if (taken > 0) --taken;  // one that an earlier mover made does not count
      node.free.push_back(std::move(segment));
    }
  }
  changed_.notify_all();
}

void SegmentPool::Want(Wanted wanted, bool hashing) {
  {
    const std::lock_guard lock(mutex_);
    hashing_ = hashing;
    if (wanted_ == wanted) return;
    wanted_ = std::move(wanted);
    for (auto& [id, node] : nodes_) {
      node.wanted.clear();
      node.gpus.clear();
    }
    for (const auto& [gpu, processes] : wanted_) {
      Node& node = nodes_[gpus_.HostNode(gpu)];
      node.wanted = SumOf(node.wanted, StockFor(processes));
      node.gpus.push_back(gpu);
      gpu_ = gpu;
    }
    refused_ = false;
  }
  changed_.notify_all();
}

std::uint64_t SegmentPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [id, node] : nodes_)
    for (const Segment& segment : node.free) sum += segment.bytes();
  return sum;
}

namespace {

Stock StockOf(const std::vector<Segment>& segments) {
  Stock stock;
  for (const Segment& segment : segments) ++stock[segment.bytes()];
  return stock;
}

}  // namespace

// What to make next: a few segments for each GPU, because what is wanted may change. mutex_ is held.
std::vector<SegmentPool::Job> SegmentPool::NextJobs() const {
  constexpr std::size_t kOfEach = 4;
  std::vector<Job> jobs;
  if (refused_) return jobs;
  for (const auto& [id, node] : nodes_) {
    const auto sizes = Missing(SumOf(StockOf(node.free), node.taken), node.wanted);
    for (std::size_t i = 0; i < std::min(sizes.size(), kOfEach * node.gpus.size()); ++i)
      jobs.push_back({id, node.gpus[i % node.gpus.size()], sizes[i]});
  }
  return jobs;
}

std::optional<Segment> SegmentPool::NextSurplus() {
  for (auto& [id, node] : nodes_) {
    const auto size = Surplus(StockOf(node.free), node.taken, node.wanted);
    if (!size) continue;
    const auto last = std::find_if(node.free.rbegin(), node.free.rend(),
                                   [&](const Segment& one) { return one.bytes() == *size; });
    std::optional<Segment> surplus(std::move(*last));
    node.free.erase(std::next(last).base());
    return surplus;
  }
  return std::nullopt;
}

// A Take may claim segments while they are made.
void SegmentPool::MakeAll(const std::vector<Job>& jobs) {
  InParallel(jobs.size(), [&](std::size_t i) {
    const auto& [id, gpu, bytes] = jobs[i];
    (void)gpus_.Use(gpu);
    auto made = Make(id, bytes);
    const std::lock_guard lock(mutex_);
    if (made)
      nodes_[id].free.push_back(std::move(*made));
    else
      refused_ = true;
    made_.notify_all();
  });
}

void SegmentPool::Prepare() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (const auto jobs = NextJobs(); !jobs.empty()) {
      making_ = true;
      for (const Job& job : jobs) ++nodes_[job.node].making[job.bytes];
      const Wanted wanted = wanted_;
      const bool hashing = hashing_;
      lock.unlock();
      // A context that comes later would have to learn of all memory that is registered by then.
      for (const auto& [gpu, processes] : wanted)
        if (gpus_.Use(gpu) && hashing) (void)gpus_.HasherOf(gpu);  // whose kernels the driver has to compile
      MakeAll(jobs);
      lock.lock();
      making_ = false;
      for (auto& [id, node] : nodes_) node.making.clear();
      made_.notify_all();
    } else if (auto surplus = NextSurplus()) {
      const int gpu = gpu_;
      lock.unlock();
      (void)gpus_.Use(gpu);
      surplus.reset();  // freeing the segment takes some time
      lock.lock();
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace gpuman::mover
