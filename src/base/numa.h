// The nodes (NUMA) that a machine's memory is on, as the kernel numbers them.
//
// The calls are the kernel's own (mbind, get_mempolicy), so that no library is needed. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace gpuman::base {

// Has the kernel take the pages of this memory from this node, as far as the node has room, and from others
// otherwise. For pages that nobody has touched. Where the kernel refuses (there is no such node, or a
// container may not choose), the memory can be used all the same.
Result<> PreferNode(void* at, std::uint64_t bytes, int node);

// The node that a device of this bus ("0000:1b:00.0", in either case) is on; nullopt: the kernel does not
// say, or knows of no nodes.
std::optional<int> NodeOfPciDevice(std::string_view bus_id,
                                   const std::filesystem::path& devices = "/sys/bus/pci/devices");

}  // namespace gpuman::base
