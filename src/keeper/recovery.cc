#include "keeper/recovery.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "keeper/cgroup.h"
#include "keeper/process_tree.h"

namespace gpuman::keeper {
namespace {

std::vector<base::ProcessInfo> Marked(const std::string& key, const base::ProcessTable& table) {
  auto listing = table.List();
  std::erase_if(listing, [&](const base::ProcessInfo& process) {
    return process.state == 'Z' || table.Environment(process.id.pid, kKeyVariable) != key;
  });
  return listing;
}

}  // namespace

std::string MakeKey() {
  std::array<unsigned char, 16> bytes{};
  (void)!::getrandom(bytes.data(), bytes.size(), 0);
  std::string key;
  for (const auto byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

void EndLeftoversOf(const KeeperStarted& earlier, const base::ProcessTable& table) {
  const ProcessTree in_cgroup{base::ProcessId{}, earlier.cgroup};
  const auto look = [&] {
    auto found = Members(in_cgroup, table);
    for (auto& process : Marked(earlier.key, table))
      if (std::none_of(found.begin(), found.end(), [&](const auto& f) { return f.id == process.id; }))
        found.push_back(std::move(process));
    return found;
  };
  if (!earlier.cgroup.empty()) KillCgroup(earlier.cgroup);
  KillAll(look);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!look().empty() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!earlier.cgroup.empty()) RemoveCgroup(earlier.cgroup);
}

}  // namespace gpuman::keeper
