#include "history/segment.h"

#include <fmt/format.h>

#include <array>

#include "base/crc32c.h"
#include "base/parse_number.h"

namespace gpuman::history {
namespace {

constexpr std::size_t kFrame = 8;  // length and checksum
constexpr std::array<std::string_view, kKinds> kKindWords{"gpu", "job"};
constexpr std::string_view kEnding = ".history";
constexpr std::size_t kDigits = 8;

void PutFixed(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
}

std::uint32_t FixedAt(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

}  // namespace

std::string Framed(std::string_view block) {
  std::string out;
  out.reserve(kFrame + block.size());
  PutFixed(out, static_cast<std::uint32_t>(block.size()));
  PutFixed(out, base::Crc32c(block));
  out += block;
  return out;
}

WalkResult WalkBlocks(std::string_view file, const std::function<bool(const BlockHead&)>& is_wanted,
                      const std::function<void(const BlockHead&)>& on_block) {
  WalkResult walked;
  walked.foreign = !file.starts_with(kFileHeader);
  if (walked.foreign) return walked;
  std::size_t at = kFileHeader.size();
  while (file.size() - at >= kFrame) {
    const std::size_t length = FixedAt(file, at);
    if (length == 0 || length > kLongestBlock || length > file.size() - at - kFrame) break;
    const std::string_view block = file.substr(at + kFrame, length);
    const auto head = ReadHead(block);
    const bool wanted = head && is_wanted(*head);
    if (!head || (wanted && base::Crc32c(block) != FixedAt(file, at + 4)))
      ++walked.damaged;
    else if (wanted)
      on_block(*head);
    at += kFrame + length;
  }
  walked.readable = at;
  return walked;
}

std::string NameOf(const FileName& name) {
  return fmt::format("{}-{}s-{:0{}}{}", kKindWords[static_cast<std::size_t>(name.kind)], kSteps[name.tier],
                     name.number, kDigits, kEnding);
}

std::optional<FileName> ParseFileName(std::string_view text) {
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (std::size_t tier = 0; tier < kTiers; ++tier) {
      FileName name{static_cast<SubjectKind>(kind), tier, 0};
      const std::string start = fmt::format("{}-{}s-", kKindWords[kind], kSteps[tier]);
      if (!text.starts_with(start) || !text.ends_with(kEnding)) continue;
      const auto digits = text.substr(start.size(), text.size() - start.size() - kEnding.size());
      const auto number = base::ParseNumber<decltype(name.number)>(digits);
      name.number = number.value_or(0);
      return number && NameOf(name) == text ? std::optional(name) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace gpuman::history
