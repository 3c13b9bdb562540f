// Reads and writes the keeper's JSON without exceptions: an absent, mistyped or out-of-range value becomes
// one error that names the field. Strings may hold any bytes: what is not UTF-8 is written as {"hex":"…"}.
#pragma once

#include <chrono>
#include <concepts>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_number.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::keeper {

using Json = nlohmann::json;

Json ToJson(std::string_view bytes);
inline Json ToJson(const std::string& bytes) { return ToJson(std::string_view(bytes)); }
inline Json ToJson(const std::filesystem::path& path) { return ToJson(path.native()); }
Json ToJson(const base::ProcessId& process);
inline Json ToJson(base::Bytes bytes) { return bytes.count; }
inline Json ToJson(base::Millis duration) { return duration.count(); }
template <typename T>
requires std::integral<T> Json ToJson(T value) { return value; }
template <typename T>
Json ToJson(const std::vector<T>& values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(ToJson(value));
  return array;
}
// An empty optional is left out.
template <typename T>
void Put(Json& object, const char* name, const std::optional<T>& value) {
  if (value) object[name] = ToJson(*value);
}

bool FromJson(const Json& json, std::string& out);
bool FromJson(const Json& json, std::filesystem::path& out);
bool FromJson(const Json& json, bool& out);
bool FromJson(const Json& json, base::Bytes& out);
bool FromJson(const Json& json, base::ProcessId& out);
template <typename T>
requires(std::integral<T> && !std::same_as<T, bool>) bool FromJson(const Json& json, T& out) {
  const auto number = base::WholeNumber<T>(json);
  if (number) out = *number;
  return number.has_value();
}
template <typename Period>
bool FromJson(const Json& json, std::chrono::duration<std::int64_t, Period>& out) {
  std::int64_t count = 0;
  if (!FromJson(json, count)) return false;
  out = std::chrono::duration<std::int64_t, Period>(count);
  return true;
}
template <typename T>
bool FromJson(const Json& json, std::vector<T>& out) {
  if (!json.is_array()) return false;
  out.clear();
  for (const auto& element : json) {
    T value{};
    if (!FromJson(element, value)) return false;
    out.push_back(std::move(value));
  }
  return true;
}

// Takes fields out of one object and remembers the first that is wrong.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) Complain("not a JSON object");
  }

  template <typename T>
  void Need(const char* name, T& out) {
    const Json* found = Find(name);
    if (!found) return Complain(std::string(name) + " is missing");
    if (!FromJson(*found, out)) Complain(std::string(name) + " has a wrong value");
  }
  // Absent or null: `out` keeps its value.
  template <typename T>
  void Take(const char* name, T& out) {
    if (const Json* found = Find(name); found && !FromJson(*found, out))
      Complain(std::string(name) + " has a wrong value");
  }
  template <typename T>
  void Take(const char* name, std::optional<T>& out) {
    const Json* found = Find(name);
    if (!found) return;
    T value{};
    if (!FromJson(*found, value)) return Complain(std::string(name) + " has a wrong value");
    out = std::move(value);
  }
  // A word that `parse` turns into an optional value.
  template <typename T, typename Parse>
  void NeedWord(const char* name, T& out, Parse parse) {
    std::string word;
    Need(name, word);
    if (!ok()) return;
    if (auto value = parse(word))
      out = *value;
    else
      Complain(std::string(name) + " is no known word: " + word);
  }
  const Json* Find(const char* name) const;

  bool ok() const { return !problem_; }
  void Complain(std::string problem) {
    if (!problem_) problem_ = std::move(problem);
  }
  base::Result<> Finish(std::string_view what) const;

 private:
  const Json& object_;
  std::optional<std::string> problem_;
};

// kCorrupt when `text` is not JSON.
base::Result<Json> ParseJson(std::string_view text, std::string_view what);
std::string Dump(const Json& json);

}  // namespace gpuman::keeper
