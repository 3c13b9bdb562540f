// The environment with which a job was submitted. Jobs of one shell mostly have the same, so they share it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "jobs/shared.h"

namespace gpuman::jobs {

using Variables = std::map<std::string, std::string>;  // by name
using Environment = Shared<Variables>;

struct VariablesHash {
  std::size_t operator()(const Variables& variables) const {
    std::size_t hash = variables.size();
    for (const auto& [name, value] : variables)
      for (const auto& text : {name, value}) hash = hash * 1'000'003 ^ std::hash<std::string>()(text);
    return hash;
  }
};

}  // namespace gpuman::jobs
