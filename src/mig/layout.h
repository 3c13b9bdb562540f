// The wanted instances of a GPU, in words: "3g.71gb", "2x1g.18gb", "1c.3g.71gb". Pure.
//
//   [COUNTx][SLICESc.]PROFILE
//
// PROFILE alone is a GPU instance with one compute instance that uses all of it. SLICESc.PROFILE is a compute
// instance of that many slices. Such compute instances of one profile share GPU instances, as few as have
// room for them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mig/device.h"

namespace gpuman::mig {

struct LayoutItem {
  std::string profile;
  unsigned compute = 0;  // slices; 0: all of the GPU instance
  unsigned count = 1;
  friend bool operator==(const LayoutItem&, const LayoutItem&) = default;
};

// The wanted state of one GPU.
struct WantedLayout {
  bool enabled = true;
  std::vector<LayoutItem> items;  // empty: MIG on and no instance
  // The mode stays as it is, on, off or to be changed by the next reset: `enabled` is not considered, and
  // there are no items.
  bool keep_mode = false;
  friend bool operator==(const WantedLayout&, const WantedLayout&) = default;
};

// A wanted GPU instance, with the slices of its compute instances, the biggest first.
struct WantedInstance {
  std::size_t profile = 0;  // index into the geometry
  std::vector<unsigned> compute;
  friend auto operator<=>(const WantedInstance&, const WantedInstance&) = default;
};

// kInvalidArgument: the message says what is wrong with the text.
base::Result<LayoutItem> ParseItem(std::string_view text);
base::Result<std::vector<LayoutItem>> ParseItems(std::span<const std::string> texts);
std::string FormatItem(const LayoutItem& item);

// kNotFound: no such profile; the message names the existing profiles. kUnsatisfiable: an item asks for more
// slices than its profile has.
base::Result<std::vector<WantedInstance>> Resolve(const Geometry& geometry,
                                                  std::span<const LayoutItem> items);

// The items that describe these instances, the biggest first. Resolve turns the items into the same
// instances.
std::vector<LayoutItem> ItemsOf(const Geometry& geometry, std::span<const GpuInstance> instances);

}  // namespace gpuman::mig
