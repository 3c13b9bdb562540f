// The members of one JSON object, in the order they are written: what reading a hundred thousand small
// objects needs, without the tree that nlohmann::json builds of each.
//
//   GPUMAN_ASSIGN(const auto members, JsonMembers::Parse(text));
//   if (auto it = members.find("tag"); it != members.end()) job.tag = it->get<std::string>();
//
// Values are whole, those that are objects and arrays as well. Of a name that comes twice the last counts, as
// with nlohmann::json.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gpuman::jobs {

class JsonMembers {
 public:
  // kCorrupt: the text is no JSON, or no object.
  static base::Result<JsonMembers> Parse(std::string_view text);

  // As of nlohmann::json: a pointer to the value, end() where there is none.
  const nlohmann::json* find(std::string_view name) const {
    const auto it = std::find_if(members_.rbegin(), members_.rend(),
                                 [name](const auto& member) { return member.first == name; });
    return it == members_.rend() ? end() : &it->second;
  }
  const nlohmann::json* end() const { return nullptr; }
  bool contains(std::string_view name) const { return find(name) != end(); }
  template <typename T>
  T value(std::string_view name, T otherwise) const {
    const auto* const found = find(name);
    return found ? found->get<T>() : otherwise;
  }

 private:
  class Reader;
  std::vector<std::pair<std::string, nlohmann::json>> members_;
};

}  // namespace gpuman::jobs
