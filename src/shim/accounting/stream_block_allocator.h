// Memory that is given out and freed in the order of streams: segments of device memory, and the blocks that
// they are divided into.
//
// A block that was freed in a stream may be used in that stream at once. In another stream it may be used
// after the event that was recorded behind the free. Events and streams are numbers here; the caller knows
// for which events and streams of the driver they stand. Pure; not thread-safe. An object of zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/libc/hash_table.h"

namespace gpuman::shim {

// `sure`: no other stream has this number. Otherwise the stream has to be told to wait even where the numbers
// are the same.
struct StreamKey {
  std::uint64_t number;
  bool sure;
};

// What was recorded behind a free: an event, and the context of the event. Event 0: none.
struct EventAfterFree {
  std::uint64_t event;
  std::uint64_t context;
};

// kSameStream: only blocks that a stream of the same number freed.
enum class FreedBy { kSameStream, kAnyStream };

class StreamBlockAllocator {
 public:
  static constexpr std::uint64_t kStep = 512;  // addresses and sizes are multiples of it

  // A block that was given out.
  struct Block {
    std::uint64_t address;
    std::uint64_t size;    // as the program asked for it
    std::uint64_t number;  // no other block ever has this number
    std::uint64_t context;
  };

  // Enters a segment. Returns false when there is no memory for the entry.
  bool AddSegment(std::uint64_t address, std::uint64_t bytes);
  // Takes out a segment of which no part is in use or waits for an event. Returns 0 when there is none.
  std::uint64_t TakeIdle(std::uint64_t& bytes);

  // Takes a block that the stream may use at once. Returns false when there is none.
  bool Take(std::uint64_t size, const StreamKey& stream, std::uint64_t context, std::uint64_t& address);
  // Finds a block that the stream may use after an event. Returns 0 when there is none. Otherwise the caller
  // tells the stream to wait for the event, and then calls TakeAfter. TakeAfter sets `address` to 0 when
  // there is no memory for the entry.
  std::uint32_t FindAfter(std::uint64_t size, const StreamKey& stream, FreedBy by,
                          EventAfterFree& behind) const;
  void TakeAfter(std::uint32_t found, std::uint64_t size, std::uint64_t context, std::uint64_t& address);

  // Finds the block that was given out and in which the address lies. Returns false when there is none.
  bool Find(std::uint64_t segment, std::uint64_t address, Block& block);
  bool IsInUse(std::uint64_t address) { return given_.Find(address) != nullptr; }
  // Frees the block that was given out at the address, behind an event or at once (event 0). Returns false
  // when there is none.
  bool Free(std::uint64_t address, const StreamKey& stream, const EventAfterFree& behind);

  // Calls done(behind) for each event that a block waits for. Where that is true, the block waits no more.
  template <typename Done>
  void CheckEvents(Done done) {
    for (std::uint32_t i = 1; i < made_ && pending_ != 0; ++i) {
      const Node& node = nodes_[i];
      if (node.state == State::kFree && node.behind.event != 0 && done(node.behind)) Completed(i);
    }
  }
  // Takes an event that no block waits for any more. Returns false when there is none.
  bool TakeSpent(EventAfterFree& behind);

  std::uint64_t used() const { return used_; }          // bytes that are given out, in whole steps
  std::uint64_t reserved() const { return reserved_; }  // bytes of all segments
  std::size_t pending() const { return pending_; }      // blocks that wait for an event

  void Reset();

 private:
  enum class State : std::uint8_t { kNone, kFree, kUsed, kSpent };
  static constexpr unsigned kBins = 48;

  struct Node {
    std::uint64_t address, bytes;
    std::uint64_t size, number;    // of a block that was given out
    std::uint64_t stream;          // in which the block was freed
    EventAfterFree behind;         // .context: of the free, or of the allocation
    std::uint32_t before, after;   // the neighbours in the segment
    std::uint32_t previous, next;  // the neighbours in the bin, or in the list of unused or spent nodes
    State state;
    bool sure;
  };
  struct Segment {
    std::uint64_t bytes;
    std::uint32_t first;
  };

  static unsigned BinOf(std::uint64_t bytes);
  std::uint32_t NewNode();
  void DropNode(std::uint32_t i);
  void Link(std::uint32_t i);
  void Unlink(std::uint32_t i);
  // Returns whether the two neighbours can become one block.
  bool Match(const Node& a, const Node& b) const;
  std::uint32_t Merge(std::uint32_t i);
  void Completed(std::uint32_t i);
  void Spend(const EventAfterFree& behind);
  void Give(std::uint32_t i, std::uint64_t bytes, std::uint64_t size, std::uint64_t context);
  static bool Usable(const Node& node, const StreamKey& stream) {
    return node.behind.event == 0 || (node.stream == stream.number && node.sure && stream.sure);
  }

  Node* nodes_ = nullptr;  // from index 1 on
  std::uint32_t capacity_ = 0, made_ = 0;
  std::uint32_t unused_ = 0, spent_ = 0;  // lists of nodes; 0: empty
  std::uint32_t bins_[kBins] = {};
  HashTable<Segment> segments_;     // by address
  HashTable<std::uint32_t> given_;  // by address
  std::uint64_t used_ = 0, reserved_ = 0, numbers_ = 0;
  std::size_t pending_ = 0;
};

}  // namespace gpuman::shim
