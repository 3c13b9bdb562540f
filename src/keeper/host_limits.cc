#include "keeper/host_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;

// The kernel's usual period, in microseconds.
constexpr int kPeriod = 100'000;

std::set<std::string> WordsOf(const Path& file) {
  std::istringstream text(base::ReadFile(file).value_or(""));
  std::set<std::string> words;
  for (std::string word; text >> word;) words.insert(word);
  return words;
}

Names Missing(const Path& file, const Names& controllers) {
  const auto there = WordsOf(file);
  Names missing;
  std::copy_if(controllers.begin(), controllers.end(), std::back_inserter(missing),
               [&](const std::string& name) { return !there.contains(name); });
  return missing;
}

// systemd marks the cgroups that it delegates (systemd.resource-control(5), Delegate=).
bool IsDelegated(const Path& cgroup) {
  const auto marked = [&](const char* name) {
    char value = 0;
    return ::getxattr(cgroup.c_str(), name, &value, 1) == 1 && value == '1';
  };
  return marked("user.delegate") || marked("trusted.delegate");
}

// Makes `cgroup` hand the controllers down to its children.
Result<> HandDown(const Path& cgroup, const Names& controllers) {
  const Path file = cgroup / "cgroup.subtree_control";
  const auto missing = Missing(file, controllers);
  if (missing.empty()) return {};
  if (const auto lacking = Missing(cgroup / "cgroup.controllers", missing); !lacking.empty())
    return Fail(ErrorCode::kNotSupported,
                fmt::format("{} has no {} controller", cgroup.string(), fmt::join(lacking, " and ")));
  return base::WriteControl(file, fmt::format("+{}", fmt::join(missing, " +")));
}

// Makes `gpuman` below `cgroup`, which has the controllers in its subtree_control, and makes it hand them
// down.
Result<Path> ParentBelow(const Path& cgroup, const Names& controllers) {
  const Path parent = cgroup / "gpuman";
  GPUMAN_TRY(base::MakeDirectories(parent));
  GPUMAN_TRY(HandDown(parent, controllers));
  return parent;
}

Result<> Write(const Path& cgroup, const char* file, const std::string& text) {
  return base::WriteControl(cgroup / file, text);
}

}  // namespace

Result<Path> FindLimitingParent(const Path& own, const Path& top, const Names& controllers) {
  std::optional<base::Error> why;
  const auto note = [&](base::Error error) {
    if (!why) why = std::move(error);
  };
  for (Path cgroup = own;; cgroup = cgroup.parent_path()) {
    const bool ours = cgroup == own || IsDelegated(cgroup);
    bool has = Missing(cgroup / "cgroup.subtree_control", controllers).empty();
    if (!has && ours) {
      auto handed = HandDown(cgroup, controllers);
      has = handed.has_value();
      if (!handed) note(std::move(handed.error()));
    }
    if (has) {
      auto parent = ParentBelow(cgroup, controllers);
      if (parent) return parent;
      note(std::move(parent.error()));
    }
    if (cgroup == top || !cgroup.has_relative_path()) break;
  }
  return Fail(ErrorCode::kNotSupported, why ? why->message : "no cgroup here hands the controllers down");
}

Result<> LimitMemory(const Path& cgroup, std::optional<base::Bytes> limit) {
  const std::string bytes = limit ? std::to_string(limit->count) : "max";
  // Some kernels lack these files; without swap accounting no swap counts.
  (void)Write(cgroup, "memory.oom.group", "1").has_value();
  (void)Write(cgroup, "memory.swap.max", limit ? "0" : "max").has_value();
  return Write(cgroup, "memory.max", bytes);
}

Result<> LimitProcessors(const Path& cgroup, int count) {
  return Write(cgroup, "cpu.max", fmt::format("{} {}", std::int64_t{kPeriod} * count, kPeriod));
}

std::optional<std::uint64_t> OutOfMemoryKills(const Path& cgroup) {
  std::istringstream text(base::ReadFile(cgroup / "memory.events").value_or(""));
  std::string name;
  for (std::uint64_t count = 0; text >> name >> count;)
    if (name == "oom_kill") return count;
  return std::nullopt;
}

std::optional<base::Bytes> PeakMemory(const Path& cgroup) {
  const auto bytes = base::LeadingNumber<std::uint64_t>(base::ReadFile(cgroup / "memory.peak").value_or(""));
  return bytes ? std::optional(base::Bytes{*bytes}) : std::nullopt;
}

EndReason HostMemoryReason(base::Bytes limit, std::optional<base::Bytes> peak) {
  return {"host_memory_limit",
          fmt::format("its processes wanted more than the {} of host memory that it asked for{}",
                      base::FormatBytes(limit),
                      peak ? fmt::format(" (they had {})", base::FormatBytes(*peak)) : "")};
}

std::vector<int> ChooseProcessors(const std::vector<int>& allowed, const std::map<int, int>& pinned,
                                  std::size_t count, std::size_t turn) {
  std::vector<int> order = allowed;
  if (order.empty()) return order;
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn % order.size()), order.end());
  const auto load = [&](int processor) {
    const auto it = pinned.find(processor);
    return it == pinned.end() ? 0 : it->second;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return load(a) < load(b); });
  order.resize(std::min(order.size(), count));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int> ParseProcessors(std::string_view text) {
  constexpr int kMax = 1 << 16;
  std::vector<int> processors;
  while (!text.empty()) {
    const auto part = base::TakeUntil(text, ',');
    const auto first = base::LeadingNumber<std::uint64_t>(part);
    const auto dash = part.find('-');
    const auto last =
        dash == std::string_view::npos ? first : base::LeadingNumber<std::uint64_t>(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMax) return {};
    for (auto number = *first; number <= *last; ++number) processors.push_back(static_cast<int>(number));
  }
  return processors;
}

std::vector<int> FreestProcessors(std::size_t count, std::int64_t job) {
  const auto list_of = [](const Path& process) {
    constexpr std::string_view kName = "Cpus_allowed_list:\t";
    const std::string status = base::ReadFile(process / "status").value_or("");
    const auto at = status.find(kName);
    if (at == std::string::npos) return std::vector<int>{};
    const auto begin = at + kName.size();
    return ParseProcessors(std::string_view(status).substr(begin, status.find('\n', begin) - begin));
  };
  const auto allowed = list_of("/proc/self");
  std::map<int, int> pinned;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    if (!base::LeadingNumber<std::uint64_t>(it->path().filename().native())) continue;
    const auto processors = list_of(it->path());
    if (processors.size() >= allowed.size()) continue;
    for (const int processor : processors) ++pinned[processor];
  }
  return ChooseProcessors(allowed, pinned, count, static_cast<std::size_t>(job) * count);
}

HostLimitPlan PlanHostLimits(const HostLimits& limits, const Result<Path>& own, const Path& top) {
  HostLimitPlan hold;
  const bool memory = limits.memory.has_value(), processors = limits.cpus > 0;
  std::string why = own ? "" : own.error().message;
  const auto find = [&](bool with_memory, bool with_processors) {
    if (!own || (!with_memory && !with_processors)) return;
    Names names;
    if (with_memory) names.emplace_back("memory");
    if (with_processors) names.emplace_back("cpu");
    auto parent = FindLimitingParent(*own, top, names);
    if (!parent) {
      why = parent.error().message;
      return;
    }
    hold.parent = std::move(*parent);
    hold.memory = with_memory;
    hold.processors = with_processors;
  };
  find(memory, processors);
  // One is better than none. Memory comes first, because nothing else can hold it.
  if (hold.parent.empty() && memory && processors) find(true, false);
  if (hold.parent.empty() && memory && processors) find(false, true);
  if (memory && !hold.memory)
    hold.notes.push_back(
        fmt::format("its host memory is not limited to {}: {}", base::FormatBytes(*limits.memory), why));
  return hold;
}

}  // namespace gpuman::keeper
