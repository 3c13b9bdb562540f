// Internal to the codec: reads and writes structs field by field, from one list of fields for each type.
//
// A list is a function template `Fields(visitor, object)`; the visitor is a Writer or a Reader, so the same
// fields are written and read. visitor.Required(name, field) fails if the field is missing; visitor(name,
// field) leaves the default. visitor.Changed(name, field, usual) does not write a default value.
// visitor.Group(name, …) nests.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/json.h"

namespace gpuman::api::fields {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

class Writer;

// How a leaf is written; structs are written through their Fields().
inline Json Write(bool value) { return value; }
template <std::integral T>
Json Write(T value) {
  return value;
}
inline Json Write(double value) { return value; }
inline Json Write(const std::string& value) { return value; }
inline Json Write(base::Bytes value) { return value.count; }
inline Json Write(base::WallTime value) { return base::FormatIso8601(value); }
inline Json Write(JobState value) { return std::string(ToString(value)); }
inline Json Write(RestartPolicy value) { return std::string(ToString(value)); }
inline Json Write(DependencyKind value) { return std::string(ToString(value)); }
inline Json Write(DependencyMode value) { return std::string(ToString(value)); }
Json Write(base::Millis value);
Json Write(const base::SizeSpec& value);
template <typename T>
Json Write(const std::optional<T>& value);
template <typename T>
Json Write(const std::vector<T>& value);
template <typename T>
Json Write(const std::map<std::string, T>& value);
template <typename T>
requires std::is_class_v<T> Json Write(const T& value);

class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) {
    json[name] = Write(value);
  }
  template <typename T>
  void Required(const char* name, const T& value) {
    json[name] = Write(value);
  }
  // Requests: a default value is left out.
  template <typename T>
  void Changed(const char* name, const T& value, const std::type_identity_t<T>& usual) {
    if (!(value == usual)) json[name] = Write(value);
  }
  // An absent option is left out.
  template <typename T>
  void Option(const char* name, const std::optional<T>& value) {
    if (value) json[name] = Write(*value);
  }
  template <typename T>
  void Clearable(const char* name, const std::optional<T>& value, const bool& clear) {
    if (clear)
      json[name] = nullptr;
    else
      Option(name, value);
  }
  template <typename F>
  void Group(const char* name, F&& list) {
    Writer inner;
    list(inner);
    json[name] = std::move(inner.json);
  }

  Json json = Json::object();
};

template <typename T>
Json Write(const std::optional<T>& value) {
  return value ? Write(*value) : Json(nullptr);
}
template <typename T>
Json Write(const std::vector<T>& value) {
  Json array = Json::array();
  for (const auto& element : value) array.push_back(Write(element));
  return array;
}
template <typename T>
Json Write(const std::map<std::string, T>& value) {
  Json object = Json::object();
  for (const auto& [key, element] : value) object[key] = Write(element);
  return object;
}
template <typename T>
requires std::is_class_v<T> Json Write(const T& value) {
  Writer writer;
  Fields(writer, value);
  return std::move(writer.json);
}

// The state of reading: whether it is strict, and the first error.
struct Reading {
  bool strict = false;
  std::string error;  // empty: no error so far

  void Fail(const std::string& path, std::string_view what) {
    if (error.empty()) error = path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
  }
  void WrongType(const std::string& path, std::string_view expected, const Json& found);
  bool failed() const { return !error.empty(); }
};

void Read(Reading& r, const std::string& path, const Json& json, bool& out);
void Read(Reading& r, const std::string& path, const Json& json, double& out);
void Read(Reading& r, const std::string& path, const Json& json, std::string& out);
void Read(Reading& r, const std::string& path, const Json& json, base::Bytes& out);
void Read(Reading& r, const std::string& path, const Json& json, base::WallTime& out);
void Read(Reading& r, const std::string& path, const Json& json, base::Millis& out);
void Read(Reading& r, const std::string& path, const Json& json, base::SizeSpec& out);
void Read(Reading& r, const std::string& path, const Json& json, JobState& out);
void Read(Reading& r, const std::string& path, const Json& json, RestartPolicy& out);
void Read(Reading& r, const std::string& path, const Json& json, DependencyKind& out);
void Read(Reading& r, const std::string& path, const Json& json, DependencyMode& out);
void ReadInteger(Reading& r, const std::string& path, const Json& json, std::int64_t least, std::int64_t most,
                 std::int64_t& out);
template <std::integral T>
void Read(Reading& r, const std::string& path, const Json& json, T& out) {
  constexpr auto kMax = std::numeric_limits<T>::max();
  std::int64_t value = 0;
  ReadInteger(r, path, json, static_cast<std::int64_t>(std::numeric_limits<T>::min()),
              std::cmp_greater(kMax, INT64_MAX) ? INT64_MAX : static_cast<std::int64_t>(kMax), value);
  if (!r.failed()) out = static_cast<T>(value);
}
template <typename T>
void Read(Reading& r, const std::string& path, const Json& json, std::optional<T>& out);
template <typename T>
void Read(Reading& r, const std::string& path, const Json& json, std::vector<T>& out);
template <typename T>
void Read(Reading& r, const std::string& path, const Json& json, std::map<std::string, T>& out);
template <typename T>
requires std::is_class_v<T>
void Read(Reading& r, const std::string& path, const Json& json, T& out);

class Reader {
 public:
  // `json` outlives the reader; if it is no object, the reading fails.
  Reader(Reading& reading, std::string path, const Json& json)
      : reading_(reading), path_(std::move(path)), json_(json) {
    if (!json_.is_object()) reading_.WrongType(path_, "an object", json_);
  }

  template <typename T>
  void operator()(const char* name, T& value) {
    if (const Json* found = Find(name)) Read(reading_, Path(name), *found, value);
  }
  template <typename T>
  void Required(const char* name, T& value) {
    if (const Json* found = Find(name))
      Read(reading_, Path(name), *found, value);
    else
      reading_.Fail(path_, fmt::format("'{}' is missing", name));
  }
  template <typename T>
  void Changed(const char* name, T& value, const std::type_identity_t<T>&) {
    (*this)(name, value);
  }
  template <typename T>
  void Option(const char* name, std::optional<T>& value) {
    (*this)(name, value);
  }
  template <typename T>
  void Clearable(const char* name, std::optional<T>& value, bool& clear) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    if (found->is_null())
      clear = true;
    else
      Read(reading_, Path(name), *found, value);
  }
  template <typename F>
  void Group(const char* name, F&& list) {
    const Json* found = Find(name);
    if (found == nullptr || found->is_null()) return;
    Reader inner(reading_, Path(name), *found);
    list(inner);
    inner.Finish();
  }
  // Refuses fields that were not read.
  void Finish() {
    if (!reading_.strict || !json_.is_object()) return;
    for (const auto& [key, ignored] : json_.items())
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
        reading_.Fail(path_, fmt::format("unknown field '{}'", key));
  }

 private:
  const Json* Find(const char* name) {
    if (!json_.is_object()) return nullptr;
    if (reading_.strict) seen_.emplace_back(name);
    const auto it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }
  std::string Path(const char* name) const { return path_.empty() ? name : path_ + "." + name; }

  Reading& reading_;
  std::string path_;
  const Json& json_;
  std::vector<std::string_view> seen_;  // names of fields live until the program ends
};

template <typename T>
void Read(Reading& r, const std::string& path, const Json& json, std::optional<T>& out) {
  if (json.is_null()) return out.reset();
  Read(r, path, json, out.emplace());
}
template <typename T>
void Read(Reading& r, const std::string& path, const Json& json, std::vector<T>& out) {
  if (!json.is_array()) return r.WrongType(path, "an array", json);
  out.clear();
  for (std::size_t i = 0; i < json.size() && !r.failed(); ++i)
    Read(r, fmt::format("{}[{}]", path, i), json[i], out.emplace_back());
}
template <typename T>
void Read(Reading& r, const std::string& path, const Json& json, std::map<std::string, T>& out) {
  if (!json.is_object()) return r.WrongType(path, "an object", json);
  out.clear();
  for (const auto& [key, value] : json.items()) {
    if (r.failed()) return;
    Read(r, fmt::format("{}.{}", path, key), value, out[key]);
  }
}
template <typename T>
requires std::is_class_v<T>
void Read(Reading& r, const std::string& path, const Json& json, T& out) {
  Reader reader(r, path, json);
  Fields(reader, out);
  reader.Finish();
}

}  // namespace gpuman::api::fields
