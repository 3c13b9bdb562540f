// The members of one JSON object, in the order of the text. Reading a hundred thousand small objects needs
// only these, not the tree that nlohmann::json builds of each. simdjson reads the text: nlohmann's reader
// took half of the time in which a daemon with so many jobs starts.
//
//   GPUMAN_ASSIGN(const auto members, JsonMembers::Parse(text));
//   if (auto it = members.find("tag"); it != members.end()) job.tag = it->get<std::string>();
//
// Values are complete, objects and arrays too. If a name comes twice the last value counts, as with
// nlohmann::json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_number.h"
#include "base/result.h"

namespace gpuman::jobs {

class JsonMembers {
 public:
  // kCorrupt: the text is not JSON, or not an object.
  static base::Result<JsonMembers> Parse(std::string_view text);

  // Like nlohmann::json::find: a pointer to the value, or end().
  const nlohmann::json* find(std::string_view name) const {
    if (!(marks_ & Mark(name))) return end();
    const auto it = std::find_if(members_.rbegin(), members_.rend(),
                                 [name](const auto& member) { return member.first == name; });
    return it == members_.rend() ? end() : &it->second;
  }
  const nlohmann::json* end() const { return nullptr; }
  bool contains(std::string_view name) const { return find(name) != end(); }
  template <typename T>
  T value(std::string_view name, T otherwise) const {
    const auto* const found = find(name);
    return found ? base::Checked<T>(*found) : otherwise;
  }

 private:
  // Each name has one of 64 marks. Most names that are asked for are missing, and mostly their mark is
  // missing too.
  static std::uint64_t Mark(std::string_view name) {
    const auto at = [name](std::size_t i) { return static_cast<unsigned char>(name[i]); };
    return name.empty() ? 1 : std::uint64_t{1} << ((name.size() * 7 + at(0) * 3U + at(name.size() - 1)) & 63);
  }

  std::uint64_t marks_ = 0;  // of all members
  std::vector<std::pair<std::string, nlohmann::json>> members_;
};

}  // namespace gpuman::jobs
