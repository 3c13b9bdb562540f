#include "base/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::base {
namespace {

constexpr int kPreferred = 1;  // MPOL_PREFERRED of linux/mempolicy.h, which not all machines have

constexpr std::size_t kMaxNodes = 1024;
constexpr std::size_t kBits = 8 * sizeof(unsigned long);
using Nodes = std::array<unsigned long, kMaxNodes / kBits>;

}  // namespace

Result<> PreferNode(void* at, std::uint64_t bytes, int node) {
  if (node < 0 || static_cast<std::size_t>(node) >= kMaxNodes)
    return Fail(ErrorCode::kInvalidArgument, "there is no such node");
  Nodes nodes{};
  const auto bit = static_cast<std::size_t>(node);
  nodes[bit / kBits] = 1ul << (bit % kBits);
  // The kernel counts one bit less than it is told.
  if (::syscall(SYS_mbind, at, bytes, kPreferred, nodes.data(), kMaxNodes + 1, 0) != 0)
    return FailSystem(errno, "choosing a node for memory");
  return {};
}

std::optional<int> NodeOfPciDevice(std::string_view bus_id, const std::filesystem::path& devices) {
  const std::string name = LowerCase(bus_id);
  if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
  const auto text = ReadFile(devices / name / "numa_node");
  std::string_view line = text ? std::string_view(*text) : "";
  const auto node = TakeNumber<int>(line);
  return node && *node >= 0 ? node : std::nullopt;
}

}  // namespace gpuman::base
