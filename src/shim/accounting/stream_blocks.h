// Memory that is given out and freed in the order of streams: segments of the device's memory, and the blocks
// that they are divided into.
//
// A block that was freed in a stream may be used there at once, and elsewhere after the event that was
// recorded behind the free. Events and streams are numbers here, which somebody else knows the driver's
// things by. Pure; not thread-safe. All zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/accounting/table.h"

namespace gpuman::shim {

// `sure`: nothing but the one stream has this number. Else it has to be told to wait even where it is the
// same.
struct StreamKey {
  std::uint64_t number;
  bool sure;
};

// Behind a free: the event, which is of that context; 0: none.
struct Behind {
  std::uint64_t event;
  std::uint64_t context;
};

class StreamBlocks {
 public:
  static constexpr std::uint64_t kStep = 512;  // addresses and sizes are multiples of it

  // What was given out.
  struct Block {
    std::uint64_t address;
    std::uint64_t size;    // as was asked for
    std::uint64_t number;  // no other one of these ever has it
    std::uint64_t context;
  };

  // False: there is no memory for the entry.
  bool AddSegment(std::uint64_t address, std::uint64_t bytes);
  // One that is not in use at all, and waits for nothing, taken out; 0: there is none.
  std::uint64_t TakeIdle(std::uint64_t& bytes);

  // A block that may be used in the stream at once. False: there is none.
  bool Take(std::uint64_t size, const StreamKey& stream, std::uint64_t context, std::uint64_t& address);
  // One that may be used after an event. `same`: only of the stream's own number. 0: there is none; else for
  // TakeAfter, once the stream was told to wait for it.
  std::uint32_t FindAfter(std::uint64_t size, const StreamKey& stream, bool same, Behind& behind) const;
  void TakeAfter(std::uint32_t found, std::uint64_t size, std::uint64_t context, std::uint64_t& address);

  // The block that was given out and that the address is in. False: none.
  bool Find(std::uint64_t segment, std::uint64_t address, Block& block);
  bool IsGiven(std::uint64_t address) { return given_.Find(address) != nullptr; }
  // Frees what was given out at the address, behind an event or at once (event 0). False: nothing was.
  bool Free(std::uint64_t address, const StreamKey& stream, const Behind& behind);

  // Calls done(behind) for each event that a block waits for; where that is true it waits no more.
  template <typename Done>
  void Settle(Done done) {
    for (std::uint32_t i = 1; i < made_ && pending_ != 0; ++i) {
      const Node& node = nodes_[i];
      if (node.state == State::kFree && node.behind.event != 0 && done(node.behind)) Completed(i);
    }
  }
  // An event that no block waits for any more. False: none.
  bool TakeSpent(Behind& behind);

  std::uint64_t used() const { return used_; }          // bytes given out, in steps
  std::uint64_t reserved() const { return reserved_; }  // of all segments
  std::size_t pending() const { return pending_; }      // blocks that wait for an event

  void Reset();

 private:
  enum class State : std::uint8_t { kNone, kFree, kUsed, kSpent };
  static constexpr unsigned kBins = 48;

  struct Node {
    std::uint64_t address, bytes;
    std::uint64_t size, number;    // of what was given out
    std::uint64_t stream;          // in which it was freed
    Behind behind;                 // .context: of the free, or in which it was given out
    std::uint32_t before, after;   // in the segment
    std::uint32_t previous, next;  // in the bin, or the list of those that are none
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
  // Whether the two, which follow one another, can be one.
  bool Match(const Node& a, const Node& b) const;
  std::uint32_t Merge(std::uint32_t i);
  void Completed(std::uint32_t i);
  void Spend(const Behind& behind);
  void Give(std::uint32_t i, std::uint64_t bytes, std::uint64_t size, std::uint64_t context);
  static bool Usable(const Node& node, const StreamKey& stream) {
    return node.behind.event == 0 || (node.stream == stream.number && node.sure && stream.sure);
  }

  Node* nodes_ = nullptr;  // from 1 on
  std::uint32_t capacity_ = 0, made_ = 0;
  std::uint32_t unused_ = 0, spent_ = 0;  // lists of nodes
  std::uint32_t bins_[kBins] = {};
  Table<Segment> segments_;     // by address
  Table<std::uint32_t> given_;  // by address
  std::uint64_t used_ = 0, reserved_ = 0, numbers_ = 0;
  std::size_t pending_ = 0;
};

}  // namespace gpuman::shim
