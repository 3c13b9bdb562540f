// How much of its memory each idle tenant gives when a GPU needs room. Pure. Internal to src/share.
//
// The tenant that is used least often gives first, as much as it has. Tenants that are used about equally
// often give together, down to the same level: whichever of them works next waits for the part that it gave,
// and not for all of its memory. Nobody gives a small part, since each part costs a hand-over of its own.
#pragma once

#include <vector>

#include "base/units.h"
#include "share/events.h"

namespace gpuman::share {

struct EvictionCandidate {
  base::Bytes resident;
  Span between_uses{};  // how long its pauses usually are, or how long this one is if that is longer
};

// Tenants are used about equally often where their pauses differ by less than this factor.
inline constexpr int kAlike = 4;
// A tenant gives less than this only where it gives alone, or has no more. PCIe 5 needs 20 ms for so much,
// which is about what a hand-over takes beside its copies.
inline constexpr base::Bytes kSmallestPart = base::GiB(1);

// Returns how much each tenant gives, in their order; together `bytes`, or all that they have. If the room is
// too small to be divided, the first of the tenants that are used equally often gives it.
std::vector<base::Bytes> DivideEviction(const std::vector<EvictionCandidate>& tenants, base::Bytes bytes);

}  // namespace gpuman::share
