#include "jobs/environment.h"

#include <functional>

namespace gpuman::jobs {
namespace {

std::size_t HashOf(const Environment::Variables& variables) {
  std::size_t hash = variables.size();
  for (const auto& [name, value] : variables)
    for (const auto& text : {name, value}) hash = hash * 1'000'003 ^ std::hash<std::string>()(text);
  return hash;
}

}  // namespace

Environment EnvironmentPool::Share(const Environment& environment) {
  if (const auto last = last_.lock(); last && last == environment.variables_) return environment;
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  const std::size_t hash = HashOf(environment.variables());
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (auto shared = it->second.lock(); shared && *shared == environment.variables()) {
      last_ = shared;
      return Environment(std::move(shared));
    }
  known_.emplace(hash, environment.variables_);
  last_ = environment.variables_;
  return environment;
}

}  // namespace gpuman::jobs
