#include "suspend/host_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/parse_number.h"

namespace gpuman::suspend {
namespace {

using base::Bytes;
using base::ErrorCode;
using base::Fail;
using base::FormatBytes;
using base::Result;

// "MemTotal:       65536 kB"
std::optional<Bytes> Field(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto number = base::TakeNumber<std::uint64_t>(text);
  if (!number || *number > UINT64_MAX / 1024) return std::nullopt;
  return base::KiB(*number);
}

tl::unexpected<base::Error> TooLittle(Bytes fresh, Bytes available, Bytes kept_free) {
  return Fail(
      ErrorCode::kUnsatisfiable,
      fmt::format("suspending it takes {} of the host's memory, of which {} are available and {} have "
                  "to stay free",
                  FormatBytes(fresh), FormatBytes(available), FormatBytes(kept_free)),
      "resume or remove another suspended job, or make room in the host's memory");
}

}  // namespace

Result<HostMemory> ParseHostMemory(std::string_view meminfo) {
  const auto total = Field(meminfo, "MemTotal:"), available = Field(meminfo, "MemAvailable:");
  if (!total || !available) return Fail(ErrorCode::kCorrupt, "the kernel does not tell the host's memory");
  return HostMemory{*total, *available};
}

Result<HostMemory> ReadHostMemory(const std::filesystem::path& meminfo) {
  GPUMAN_ASSIGN(const std::string text, base::ReadFile(meminfo));
  return ParseHostMemory(text);
}

Bytes KeptFree(const HostMemory& memory) { return std::max(Bytes{memory.total.count / 16}, base::MiB(512)); }

Bytes Believed(const HostMemory& memory, Bytes said) {
  return std::min(said, memory.total - memory.available);
}

Result<> Holds(const HostRoom& room, const HostNeed& need) {
  const Bytes whole = need.evicted + need.checkpointed;
  if (whole + room.in_use > room.budget)
    return Fail(
        ErrorCode::kUnsatisfiable,
        fmt::format("suspending it takes {} of the host's memory; suspended jobs may have {} of it, and "
                    "others have {}",
                    FormatBytes(whole), FormatBytes(room.budget), FormatBytes(room.in_use)),
        "resume or remove another suspended job, or raise suspend.host_memory");
  const Bytes fresh = need.evicted - room.prepared + need.checkpointed;
  if (fresh.count > 0 && fresh + room.kept_free > room.available)
    return TooLittle(fresh, room.available, room.kept_free);
  return {};
}

Result<> HoldsCheckpoint(const HostMemory& memory, Bytes bytes) {
  if (bytes + KeptFree(memory) > memory.available)
    return TooLittle(bytes, memory.available, KeptFree(memory));
  return {};
}

std::map<MoverUser, Bytes> KeepFor(Bytes budget, Bytes in_use, const std::map<MoverUser, Bytes>& wanted) {
  using Wide = unsigned __int128;  // of the product of two sizes
  const Bytes left = budget - in_use;
  Bytes all;
  for (const auto& [user, bytes] : wanted) all += bytes;
  if (all <= left) return wanted;
  std::map<MoverUser, Bytes> keep;
  for (const auto& [user, bytes] : wanted)
    keep[user] = {static_cast<std::uint64_t>(Wide{bytes.count} * left.count / all.count)};
  return keep;
}

}  // namespace gpuman::suspend
