#include "shim/accounting/stream_block_allocator.h"

#include <sys/mman.h>

#include <cstring>

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kLargest = UINT64_MAX / 2;

// Returns `size` in whole steps, in bytes; 0: `size` is too large for any block.
std::uint64_t Steps(std::uint64_t size) {
  if (size > kLargest) return 0;
  const std::uint64_t bytes = size == 0 ? 1 : size;
  return (bytes + StreamBlockAllocator::kStep - 1) / StreamBlockAllocator::kStep *
         StreamBlockAllocator::kStep;
}

}  // namespace

unsigned StreamBlockAllocator::BinOf(std::uint64_t bytes) {
  const unsigned bin = 63u - static_cast<unsigned>(__builtin_clzll(bytes / kStep));
  return bin < kBins ? bin : kBins - 1;
}

std::uint32_t StreamBlockAllocator::NewNode() {
  if (unused_ != 0) {
    const std::uint32_t i = unused_;
    unused_ = nodes_[i].next;
    nodes_[i] = {};
    return i;
  }
  if (made_ == 0) made_ = 1;
  if (made_ >= capacity_) {
    constexpr std::uint32_t kFirst = 512;
    const std::uint32_t capacity = capacity_ == 0 ? kFirst : 2 * capacity_;
    void* const memory =
        ::mmap(nullptr, capacity * sizeof(Node), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    ::madvise(memory, capacity * sizeof(Node), MADV_DONTFORK);
    if (nodes_ != nullptr) {
      std::memcpy(memory, nodes_, capacity_ * sizeof(Node));
      ::munmap(nodes_, capacity_ * sizeof(Node));
    }
    nodes_ = static_cast<Node*>(memory);
    capacity_ = capacity;
  }
  return made_++;
}

void StreamBlockAllocator::DropNode(std::uint32_t i) {
  nodes_[i] = {};
  nodes_[i].next = unused_;
  unused_ = i;
}

void StreamBlockAllocator::Link(std::uint32_t i) {
  Node& node = nodes_[i];
  std::uint32_t& head = bins_[BinOf(node.bytes)];
  node.state = State::kFree;
  node.previous = 0;
  node.next = head;
  if (head != 0) nodes_[head].previous = i;
  head = i;
  if (node.behind.event != 0) ++pending_;
}

void StreamBlockAllocator::Unlink(std::uint32_t i) {
  Node& node = nodes_[i];
  if (node.previous != 0)
    nodes_[node.previous].next = node.next;
  else
    bins_[BinOf(node.bytes)] = node.next;
  if (node.next != 0) nodes_[node.next].previous = node.previous;
  node.previous = node.next = 0;
  if (node.behind.event != 0) --pending_;
}

void StreamBlockAllocator::Spend(const EventAfterFree& behind) {
  if (behind.event == 0) return;
  const std::uint32_t i = NewNode();
  if (i == 0) return;  // no memory for a node: the event stays unused
  nodes_[i].state = State::kSpent;
  nodes_[i].behind = behind;
  nodes_[i].next = spent_;
  spent_ = i;
}

bool StreamBlockAllocator::TakeSpent(EventAfterFree& behind) {
  if (spent_ == 0) return false;
  const std::uint32_t i = spent_;
  spent_ = nodes_[i].next;
  behind = nodes_[i].behind;
  DropNode(i);
  return true;
}

bool StreamBlockAllocator::AddSegment(std::uint64_t address, std::uint64_t bytes) {
  if (bytes < kStep || bytes % kStep != 0) return false;
  const std::uint32_t i = NewNode();
  Segment* const segment = i != 0 ? segments_.Insert(address) : nullptr;
  if (segment == nullptr) {
    if (i != 0) DropNode(i);
    return false;
  }
  *segment = {bytes, i};
  nodes_[i].address = address;
  nodes_[i].bytes = bytes;
  Link(i);
  reserved_ += bytes;
  return true;
}

std::uint64_t StreamBlockAllocator::TakeIdle(std::uint64_t& bytes) {
  std::uint64_t address = 0;
  segments_.ForEach([&](std::uint64_t at, const Segment& segment) {
    const Node& first = nodes_[segment.first];
    if (first.state == State::kFree && first.behind.event == 0 && first.bytes == segment.bytes) address = at;
  });
  Segment idle{};
  if (!segments_.Take(address, idle)) return 0;
  bytes = idle.bytes;
  Unlink(idle.first);
  DropNode(idle.first);
  reserved_ -= bytes;
  return address;
}

// Returns whether both are free and can be joined: both wait for nothing, or both for events of one stream.
// Of two events of one stream, the later one stands for both; the numbers say which one is later.
bool StreamBlockAllocator::Match(const Node& a, const Node& b) const {
  if (a.state != State::kFree || b.state != State::kFree) return false;
  if (a.behind.event == 0 || b.behind.event == 0) return a.behind.event == b.behind.event;
  return a.sure && b.sure && a.stream == b.stream && a.behind.context == b.behind.context;
}

// Joins the block with its free neighbours. Returns the node of the joined block.
std::uint32_t StreamBlockAllocator::Merge(std::uint32_t i) {
  for (;;) {
    const std::uint32_t before = nodes_[i].before, after = nodes_[i].after;
    std::uint32_t left = 0;
    if (before != 0 && Match(nodes_[before], nodes_[i]))
      left = before;
    else if (after != 0 && Match(nodes_[i], nodes_[after]))
      left = i;
    if (left == 0) return i;
    const std::uint32_t right = nodes_[left].after;
    Unlink(left);
    Unlink(right);
    Node& kept = nodes_[left];
    const Node gone = nodes_[right];
    kept.bytes += gone.bytes;
    kept.after = gone.after;
    if (gone.after != 0) nodes_[gone.after].before = left;
    const bool later = gone.number > kept.number;
    const EventAfterFree spent = later ? kept.behind : gone.behind;
    if (later) {
      kept.behind = gone.behind;
      kept.number = gone.number;
    }
    DropNode(right);
    Link(left);
    Spend(spent);
    i = left;
  }
}

void StreamBlockAllocator::Completed(std::uint32_t i) {
  Unlink(i);
  const EventAfterFree spent = nodes_[i].behind;
  nodes_[i].behind = {};
  nodes_[i].number = 0;
  Link(i);
  Merge(i);
  Spend(spent);
}

// Gives out the first `bytes` of the free block. The rest stays free, behind the same event.
void StreamBlockAllocator::Give(std::uint32_t i, std::uint64_t bytes, std::uint64_t size,
                                std::uint64_t context) {
  Unlink(i);
  const std::uint32_t rest = nodes_[i].bytes > bytes ? NewNode() : 0;  // no node: all of it is given
  Node& node = nodes_[i];
  if (rest != 0) {
    Node& left = nodes_[rest];
    left = node;
    left.address += bytes;
    left.bytes -= bytes;
    left.before = i;
    if (node.after != 0) nodes_[node.after].before = rest;
    node.after = rest;
    node.bytes = bytes;
    Link(rest);
  }
  const EventAfterFree spent = rest != 0 ? EventAfterFree{} : node.behind;
  node.state = State::kUsed;
  node.size = size;
  node.number = ++numbers_;
  node.behind = {0, context};
  used_ += node.bytes;
  Spend(spent);
}

bool StreamBlockAllocator::Take(std::uint64_t size, const StreamKey& stream, std::uint64_t context,
                                std::uint64_t& address) {
  const std::uint64_t bytes = Steps(size);
  if (bytes == 0) return false;
  for (unsigned bin = BinOf(bytes); bin < kBins; ++bin) {
    for (std::uint32_t i = bins_[bin]; i != 0; i = nodes_[i].next) {
      if (nodes_[i].bytes < bytes || !Usable(nodes_[i], stream)) continue;
      std::uint32_t* const entry = given_.Insert(nodes_[i].address);
      if (entry == nullptr) return false;
      *entry = i;
      address = nodes_[i].address;
      Give(i, bytes, size, context);
      return true;
    }
  }
  return false;
}

std::uint32_t StreamBlockAllocator::FindAfter(std::uint64_t size, const StreamKey& stream, FreedBy by,
                                              EventAfterFree& behind) const {
  const std::uint64_t bytes = Steps(size);
  for (unsigned bin = bytes != 0 ? BinOf(bytes) : kBins; bin < kBins; ++bin) {
    for (std::uint32_t i = bins_[bin]; i != 0; i = nodes_[i].next) {
      if (nodes_[i].bytes < bytes || nodes_[i].behind.event == 0) continue;
      if (by == FreedBy::kSameStream && nodes_[i].stream != stream.number) continue;
      behind = nodes_[i].behind;
      return i;
    }
  }
  return 0;
}

void StreamBlockAllocator::TakeAfter(std::uint32_t found, std::uint64_t size, std::uint64_t context,
                                     std::uint64_t& address) {
  std::uint32_t* const entry = given_.Insert(nodes_[found].address);
  address = 0;
  if (entry == nullptr) return;
  *entry = found;
  address = nodes_[found].address;
  Give(found, Steps(size), size, context);
}

bool StreamBlockAllocator::Find(std::uint64_t segment, std::uint64_t address, Block& block) {
  const std::uint32_t* const exact = given_.Find(address);
  const Segment* const known = exact == nullptr ? segments_.Find(segment) : nullptr;
  std::uint32_t i = exact != nullptr ? *exact : known != nullptr ? known->first : 0;
  while (i != 0 && address - nodes_[i].address >= nodes_[i].bytes) i = nodes_[i].after;
  if (i == 0 || nodes_[i].state != State::kUsed || address - nodes_[i].address >= nodes_[i].size)
    return false;
  block = {nodes_[i].address, nodes_[i].size, nodes_[i].number, nodes_[i].behind.context};
  return true;
}

bool StreamBlockAllocator::Free(std::uint64_t address, const StreamKey& stream,
                                const EventAfterFree& behind) {
  std::uint32_t i = 0;
  if (!given_.Take(address, i)) return false;
  Node& node = nodes_[i];
  used_ -= node.bytes;
  node.size = 0;
  node.number = behind.event != 0 ? ++numbers_ : 0;
  node.behind = behind.event != 0 ? behind : EventAfterFree{};
  node.stream = stream.number;
  node.sure = stream.sure;
  Link(i);
  Merge(i);
  return true;
}

void StreamBlockAllocator::Reset() {
  if (nodes_ != nullptr) ::munmap(nodes_, capacity_ * sizeof(Node));
  segments_.Reset();
  given_.Reset();
  *this = {};
}

}  // namespace gpuman::shim
