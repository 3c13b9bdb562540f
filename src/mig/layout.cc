#include "mig/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/nearest.h"
#include "base/parse_number.h"

namespace gpuman::mig {
namespace {

using base::ErrorCode;

constexpr unsigned kMaxOfOneItem = 64;
constexpr unsigned kMaxSlices = 64;

// The number at the beginning of `text`, if `mark` follows it; both are removed from `text`.
std::optional<unsigned> TakeNumber(std::string_view& text, std::string_view mark) {
  auto rest = text;
  const auto number = base::TakeNumber<unsigned>(rest);
  if (!number || !rest.starts_with(mark)) return std::nullopt;
  text = rest.substr(mark.size());
  return number;
}

// "3g.71gb", "1g.18gb+me", "1g.24gb-me": slices, memory, special features.
bool IsProfileName(std::string_view name) {
  if (name.size() > 32) return false;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
  });
  return is_plain && TakeNumber(name, "g.") && TakeNumber(name, "gb");
}

std::vector<std::string> NamesOf(const Geometry& geometry) {
  std::vector<std::string> names;
  for (const auto& profile : geometry) names.push_back(profile.name);
  return names;
}

base::Result<std::size_t> Find(const Geometry& geometry, const std::string& name) {
  for (std::size_t i = 0; i < geometry.size(); ++i)
    if (geometry[i].name == name) return i;
  const auto names = NamesOf(geometry);
  const auto nearest = base::Nearest(name, names);
  return base::Fail(ErrorCode::kNotFound,
                    fmt::format("this GPU has no profile '{}'; it has {}", name, fmt::join(names, ", ")),
                    nearest ? fmt::format("did you mean {}?", *nearest) : "");
}

// Puts each compute instance into the first GPU instance that has room, the biggest first.
void Pack(std::size_t profile, unsigned slices, std::vector<unsigned> compute,
          std::vector<WantedInstance>& wanted) {
  std::sort(compute.begin(), compute.end(), std::greater<>());
  std::vector<WantedInstance> made;
  for (const unsigned size : compute) {
    const auto roomy = std::find_if(made.begin(), made.end(), [&](const WantedInstance& each) {
      return std::accumulate(each.compute.begin(), each.compute.end(), size) <= slices;
    });
    if (roomy != made.end())
      roomy->compute.push_back(size);
    else
      made.push_back({profile, {size}});
  }
  wanted.insert(wanted.end(), made.begin(), made.end());
}

}  // namespace

base::Result<LayoutItem> ParseItem(std::string_view text) {
  LayoutItem item;
  std::string_view rest = text;
  if (const auto count = TakeNumber(rest, "x")) item.count = *count;
  const auto slices = TakeNumber(rest, "c.");
  if (slices) item.compute = *slices;
  item.profile = rest;
  if (!IsProfileName(rest))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' names no MIG instance", text),
                      "write 3g.71gb, 2x1g.18gb or 1c.3g.71gb; gpuman mig profiles shows what a GPU has");
  if (item.count < 1 || item.count > kMaxOfOneItem)
    return base::Fail(ErrorCode::kInvalidArgument,
                      fmt::format("'{}': the number must be from 1 to {}", text, kMaxOfOneItem));
  if (slices && (*slices < 1 || *slices > kMaxSlices))
    return base::Fail(ErrorCode::kInvalidArgument,
                      fmt::format("'{}': a compute instance has from 1 to {} slices", text, kMaxSlices));
  return item;
}

base::Result<std::vector<LayoutItem>> ParseItems(std::span<const std::string> texts) {
  std::vector<LayoutItem> items;
  for (const auto& text : texts) {
    GPUMAN_ASSIGN(auto item, ParseItem(text));
    items.push_back(std::move(item));
  }
  return items;
}

std::string FormatItem(const LayoutItem& item) {
  std::string text = item.count == 1 ? "" : fmt::format("{}x", item.count);
  if (item.compute != 0) text += fmt::format("{}c.", item.compute);
  return text + item.profile;
}

base::Result<std::vector<WantedInstance>> Resolve(const Geometry& geometry,
                                                  std::span<const LayoutItem> items) {
  std::vector<WantedInstance> wanted;
  std::map<std::size_t, std::vector<unsigned>> shared;  // slices of compute instances, by profile
  for (const auto& item : items) {
    GPUMAN_ASSIGN(const std::size_t profile, Find(geometry, item.profile));
    const unsigned slices = geometry[profile].slices;
    if (item.compute > slices)
      return base::Fail(ErrorCode::kUnsatisfiable,
                        fmt::format("{}: {} has {} slice(s)", FormatItem(item), item.profile, slices));
    for (unsigned i = 0; i < item.count; ++i) {
      if (item.compute == 0)
        wanted.push_back({profile, {slices}});
      else
        shared[profile].push_back(item.compute);
    }
  }
  for (auto& [profile, compute] : shared) Pack(profile, geometry[profile].slices, std::move(compute), wanted);
  return wanted;
}

std::vector<LayoutItem> ItemsOf(const Geometry& geometry, std::span<const GpuInstance> instances) {
  std::map<std::pair<std::size_t, unsigned>, unsigned> counts;  // by profile and slices; 0: all of it
  for (const auto& instance : instances) {
    for (const auto& compute : instance.compute) {
      const bool is_whole = compute.slices == geometry[instance.profile].slices;
      ++counts[{instance.profile, is_whole ? 0 : compute.slices}];
    }
  }
  std::vector<std::pair<std::pair<std::size_t, unsigned>, unsigned>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return geometry[a.first.first].slices > geometry[b.first.first].slices;
  });
  std::vector<LayoutItem> items;
  items.reserve(rows.size());
  for (const auto& [what, count] : rows) items.push_back({geometry[what.first].name, what.second, count});
  return items;
}

}  // namespace gpuman::mig
