// The one codec of gpuman's JSON: reads and writes structs field by field, from one list of fields for each
// type. The HTTP API, the stored records, the keeper's files and the messages between processes all use it.
//
//   struct Retries { int count = 0; base::Millis delay{0}; std::vector<int> on_exit_codes; };
//
//   // In the namespace of the type. T is const when this writes.
//   template <typename V, base::json::Of<Retries> T>
//   void Fields(V& v, T& x) {
//     v.Required("count", x.count);                 // reading fails where it is missing
//     v("delay_ms", x.delay);                       // reading keeps the default where it is missing
//     v.Changed("on_exit_codes", x.on_exit_codes);  // not written where it is the default; read as a whole
//   }
//
//   const std::string text = base::json::ToText(retries, kFormat);
//   GPUMAN_ASSIGN(const auto retries, base::json::FromText<Retries>(text, kFormat, "the stored retries"));
//
// An enum is a word; its table is WordsOf(Enum) in the namespace of the enum. A type that is no object has
// its own Json Write(const Format&, const T&) and void Read(ParseState&, const FieldPath& path, const Json&,
// T&) there.
//
// Pure functions; thread-safe; they throw no exception. Text that is not UTF-8 is replaced by U+FFFD, or
// kept as {"hex":"…"} where the format says so.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json_number.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "base/words.h"

namespace gpuman::base::json {

// Keeps the order of fields, so that people read the same order everywhere.
using Json = nlohmann::ordered_json;

enum class TimeForm { kIso8601, kMillis };  // "2026-11-25T22:10:43Z"; milliseconds since 1970
enum class DurationForm {
  kSeconds,  // a number, with a fraction if necessary
  kMillis    // a whole number
};

struct JsonFormat {
  TimeForm times = TimeForm::kIso8601;
  DurationForm durations = DurationForm::kMillis;
  bool any_bytes = false;  // a string that is not UTF-8 is kept as {"hex":"…"}
  bool defaults = false;   // when writing: also the fields that Changed() and Option() leave out
  // When reading: an unknown field is refused, since a misspelt limit that is ignored would limit nothing. A
  // NUL in a string is refused too.
  bool strict = false;
};

// New values of some fields of a T. Each replaces the whole field; null takes a value away, or makes it the
// usual one. The list of fields of T says which fields a patch may have.
template <typename T>
struct Patch {
  Json fields = Json::object();

  const Json* Find(const char* name) const {
    const auto it = fields.find(name);
    return it == fields.end() ? nullptr : &*it;
  }
  friend bool operator==(const Patch&, const Patch&) = default;
};

// T is U, or const U.
template <typename T, typename U>
concept Of = std::same_as<std::remove_const_t<T>, U>;

template <typename T>
concept Word = std::is_enum_v<T> && requires(T value) {
  WordsOf(value).size();
};

// --- writing

inline Json Write(const JsonFormat&, bool value) { return value; }
template <std::integral T>
Json Write(const JsonFormat&, T value) {
  return value;
}
inline Json Write(const JsonFormat&, double value) { return value; }
Json Write(const JsonFormat& format, const std::string& value);
Json Write(const JsonFormat& format, const std::filesystem::path& value);
inline Json Write(const JsonFormat&, Bytes value) { return value.count; }
inline Json Write(const JsonFormat&, JobId value) { return value.value; }
Json Write(const JsonFormat& format, WallTime value);
Json Write(const JsonFormat& format, Millis value);
Json Write(const JsonFormat& format, const SizeSpec& value);
// A duration in another unit: a whole number.
template <typename Period>
Json Write(const JsonFormat&, std::chrono::duration<std::int64_t, Period> value) {
  return value.count();
}
template <Word T>
Json Write(const JsonFormat&, T value) {
  return std::string(WordOf(WordsOf(value), value));
}
template <typename T>
Json Write(const JsonFormat& format, const std::optional<T>& value);
template <typename T>
Json Write(const JsonFormat& format, const std::vector<T>& value);
template <typename T>
Json Write(const JsonFormat& format, const std::set<T>& value);
template <typename T>
Json Write(const JsonFormat& format, const std::map<std::string, T>& value);
template <typename T>
requires std::is_class_v<T> Json Write(const JsonFormat& format, const T& value);

class JsonObjectWriter {
 public:
  static constexpr bool kReads = false;

  explicit JsonObjectWriter(const JsonFormat& format);

  template <typename T>
  void operator()(const char* name, const T& value) {
    Put(name, value);
  }
  template <typename T>
  void Required(const char* name, const T& value) {
    Put(name, value);
  }
  template <typename T>
  void Changed(const char* name, const T& value, const std::type_identity_t<T>& usual = {}) {
    if (format_.defaults || !(value == usual)) Put(name, value);
  }
  // Leaves an absent option out; operator() writes null for it.
  template <typename T>
  void Option(const char* name, const std::optional<T>& value) {
    if (value)
      Put(name, *value);
    else if (format_.defaults)
      AddNull(name);
  }
  // As Changed(), of an object; a patch changes only those of its fields that the patch has.
  template <typename T>
  void Part(const char* name, const T& value) {
    Changed(name, value);
  }
  // Writes null if `clear` is true.
  template <typename T>
  void Clearable(const char* name, const std::optional<T>& value, const bool& clear) {
    if (clear)
      AddNull(name);
    else
      Option(name, value);
  }
  // Adds the fields of the patch to this object; `list` names all fields that a patch may have.
  template <typename T, typename F>
  void Patched(const Patch<T>& patch, F&&) {
    AddAll(patch.fields);
  }
  // An inner object that has no type of its own.
  template <typename F>
  void Group(const char* name, F&& list) {
    JsonObjectWriter inner(format_);
    list(inner);
    Add(name, std::move(inner.json_));
  }
  // A reader accepts only this version.
  void Version(const char* name, int version) { AddSigned(name, version); }
  // Writes the fields of the alternative to this object, and its word, NameOf(const Alternative&), as `name`.
  template <typename... Alternatives>
  void Variant(const char* name, const std::variant<Alternatives...>& value) {
    std::visit(
        [&](const auto& alternative) {
          AddText(name, NameOf(alternative));
          Fields(*this, alternative);
        },
        value);
  }
  // Conditions that types cannot express, of a field and of the object: only a reader checks them.
  void Check(bool, const char*, std::string_view) {}
  void Valid(const Result<>&) {}

  bool in_seconds() const { return format_.durations == DurationForm::kSeconds; }
  Json Take() && { return std::move(json_); }

 private:
  // Functions that are compiled once write the usual types, since there are some 2,000 fields.
  template <typename T>
  void Put(const char* name, const T& value) {
    if constexpr (std::same_as<T, bool>)
      AddBool(name, value);
    else if constexpr (std::signed_integral<T>)
      AddSigned(name, value);
    else if constexpr (std::unsigned_integral<T>)
      AddUnsigned(name, value);
    else if constexpr (Word<T>)
      AddText(name, WordOf(WordsOf(value), value));
    else
      Add(name, Write(format_, value));
  }
  void Add(const char* name, Json&& value);
  void AddNull(const char* name);
  void AddBool(const char* name, bool value);
  void AddSigned(const char* name, std::int64_t value);
  void AddUnsigned(const char* name, std::uint64_t value);
  void AddText(const char* name, std::string_view value);
  void AddAll(const Json& fields);

  // A list of members that grows copies all of them, since their keys are constant.
  static constexpr std::size_t kUsualFields = 16;

  const JsonFormat& format_;
  Json json_ = Json::object();
};

template <typename T>
Json Write(const JsonFormat& format, const std::optional<T>& value) {
  return value ? Write(format, *value) : Json(nullptr);
}
template <typename T>
Json Write(const JsonFormat& format, const std::vector<T>& value) {
  Json array = Json::array();
  for (const auto& element : value) array.push_back(Write(format, element));
  return array;
}
template <typename T>
Json Write(const JsonFormat& format, const std::set<T>& value) {
  Json array = Json::array();
  for (const auto& element : value) array.push_back(Write(format, element));
  return array;
}
template <typename T>
Json Write(const JsonFormat& format, const std::map<std::string, T>& value) {
  Json object = Json::object();
  // Does without the search of operator[], since no key occurs twice.
  auto& members = object.get_ref<Json::object_t&>();
  members.reserve(value.size());
  for (const auto& [key, element] : value) members.emplace_back(key, Write(format, element));
  return object;
}
template <typename T>
requires std::is_class_v<T> Json Write(const JsonFormat& format, const T& value) {
  JsonObjectWriter writer(format);
  Fields(writer, value);
  return std::move(writer).Take();
}

// --- reading

// The place of a value in the JSON that is read. It becomes text only for an error: "jobs[0].memory".
class FieldPath {
 public:
  FieldPath() = default;  // the whole JSON
  // `outer` and `name` must outlive this object.
  FieldPath(const FieldPath& outer, std::string_view name) : outer_(&outer), name_(name) {}
  FieldPath(const FieldPath& outer, std::size_t index) : outer_(&outer), index_(index) {}

  std::string Text() const;

 private:
  const FieldPath* outer_ = nullptr;
  std::string_view name_;
  std::optional<std::size_t> index_;
};

// The state of reading: its format, and the first error.
struct ParseState {
  JsonFormat format;
  std::string error{};  // "jobs[0].memory: an integer was expected, not a string"; empty: no error so far
  // kNotSupported: a version, or an alternative, that is not known here.
  ErrorCode code = ErrorCode::kCorrupt;

  void Fail(std::string_view path, std::string_view what, ErrorCode why = ErrorCode::kCorrupt);
  void Fail(const FieldPath& path, std::string_view what, ErrorCode why = ErrorCode::kCorrupt);
  void WrongType(const FieldPath& path, std::string_view expected, const Json& found);
  bool failed() const { return !error.empty(); }
};

void Read(ParseState& r, const FieldPath& path, const Json& json, bool& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, double& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, std::string& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, std::filesystem::path& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, Bytes& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, JobId& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, WallTime& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, Millis& out);
void Read(ParseState& r, const FieldPath& path, const Json& json, SizeSpec& out);
void ReadWithin(ParseState& r, const FieldPath& path, const Json& json, std::int64_t least, std::int64_t most,
                std::int64_t& out);
void ReadWithin(ParseState& r, const FieldPath& path, const Json& json, std::uint64_t least,
                std::uint64_t most, std::uint64_t& out);
template <std::integral T>
void Read(ParseState& r, const FieldPath& path, const Json& json, T& out) {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  Wide number = out;
  ReadWithin(r, path, json, Wide{std::numeric_limits<T>::min()}, Wide{std::numeric_limits<T>::max()}, number);
  out = static_cast<T>(number);
}
template <typename Period>
void Read(ParseState& r, const FieldPath& path, const Json& json,
          std::chrono::duration<std::int64_t, Period>& out) {
  std::int64_t count = 0;
  Read(r, path, json, count);
  out = std::chrono::duration<std::int64_t, Period>(count);
}
// The place of the word among `words`. If it is none of them, the reading fails and this returns nullopt.
std::optional<std::size_t> ReadWord(ParseState& r, const FieldPath& path, const Json& json,
                                    std::span<const std::string_view> words);
template <Word T>
void Read(ParseState& r, const FieldPath& path, const Json& json, T& out) {
  static constexpr auto kWords = WordsOf(T{});
  static constexpr auto kNames = [] {
    std::array<std::string_view, kWords.size()> names{};
    std::transform(kWords.begin(), kWords.end(), names.begin(), [](const auto& each) { return each.second; });
    return names;
  }();
  if (const auto place = ReadWord(r, path, json, kNames)) out = kWords[*place].first;
}
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::optional<T>& out);
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::vector<T>& out);
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::set<T>& out);
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::map<std::string, T>& out);
template <typename T>
requires std::is_class_v<T>
void Read(ParseState& r, const FieldPath& path, const Json& json, T& out);

class JsonObjectReader {
 public:
  static constexpr bool kReads = true;

  // `json` must outlive the reader; if it is no object, the reading fails.
  JsonObjectReader(ParseState& state, const FieldPath& path, const Json& json);

  template <typename T>
  void operator()(const char* name, T& value) {
    if (const Json* found = Find(name)) Read(state_, At(name), *found, value);
  }
  template <typename T>
  void Required(const char* name, T& value) {
    if (const Json* found = Find(name))
      Read(state_, At(name), *found, value);
    else
      Missing(name);
  }
  template <typename T>
  void Changed(const char* name, T& value, const std::type_identity_t<T>& usual = {}) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    value = usual;
    if (!in_patch_ || !found->is_null()) Read(state_, At(name), *found, value);
  }
  template <typename T>
  void Option(const char* name, std::optional<T>& value) {
    (*this)(name, value);
  }
  template <typename T>
  void Part(const char* name, T& value) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    if (!in_patch_ || found->is_null()) return Changed(name, value);
    JsonObjectReader inner(state_, At(name), *found);
    inner.Change(value, [](auto& list, auto& fields) { Fields(list, fields); });
    inner.Finish();
  }
  template <typename T>
  void Clearable(const char* name, std::optional<T>& value, bool& clear) {
    const Json* found = Find(name);
    if (found == nullptr) return;
    if (found->is_null())
      clear = true;
    else
      Read(state_, At(name), *found, value);
  }
  // Takes the fields of the patch that are there, and reads their values, so that an error has its place.
  template <typename T, typename F>
  void Patched(Patch<T>& patch, F&& list) {
    T value{};
    taken_ = &patch.fields;
    Change(value, std::forward<F>(list));
    taken_ = nullptr;
  }
  // Sets the fields of `value` that are there; null sets the usual value.
  template <typename T, typename F>
  void Change(T& value, F&& list) {
    in_patch_ = true;
    list(*this, value);
    in_patch_ = false;
  }
  template <typename F>
  void Group(const char* name, F&& list) {
    const Json* found = Find(name);
    if (found == nullptr || found->is_null()) return;
    JsonObjectReader inner(state_, At(name), *found);
    list(inner);
    inner.Finish();
  }
  void Version(const char* name, int version);
  template <typename... Alternatives>
  void Variant(const char* name, std::variant<Alternatives...>& value) {
    std::string word;
    Required(name, word);
    if (state_.failed()) return;
    if (!(Try<Alternatives>(word, value) || ...)) NotKnown(name, word);
  }
  void Check(bool holds, const char* name, std::string_view what);
  void Valid(const Result<>& valid);
  bool Has(const char* name) { return Find(name) != nullptr; }
  bool failed() const { return state_.failed(); }
  bool in_seconds() const { return state_.format.durations == DurationForm::kSeconds; }
  // If the format is strict, refuses fields that were not read.
  void Finish();

 private:
  const Json* Find(const char* name);
  void Missing(const char* name);
  void NotKnown(const char* name, std::string_view alternative);
  FieldPath At(const char* name) const { return {path_, std::string_view(name)}; }
  template <typename Alternative, typename Value>
  bool Try(std::string_view word, Value& value) {
    Alternative alternative{};
    if (NameOf(alternative) != word) return false;
    Fields(*this, alternative);
    value = std::move(alternative);
    return true;
  }

  ParseState& state_;
  const FieldPath path_;
  const Json& json_;
  std::uint64_t marks_ = 0;             // of all members: a name without its mark is missing, as most are
  std::vector<std::string_view> seen_;  // names of fields live until the program ends
  Json* taken_ = nullptr;               // the fields that Patched() finds
  bool in_patch_ = false;
};

template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::optional<T>& out) {
  if (json.is_null()) return out.reset();
  Read(r, path, json, out.emplace());
}
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::vector<T>& out) {
  if (!json.is_array()) return r.WrongType(path, "an array", json);
  out.clear();
  for (std::size_t i = 0; i < json.size() && !r.failed(); ++i)
    Read(r, FieldPath(path, i), json[i], out.emplace_back());
}
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::set<T>& out) {
  std::vector<T> elements;
  Read(r, path, json, elements);
  out = {elements.begin(), elements.end()};
}
template <typename T>
void Read(ParseState& r, const FieldPath& path, const Json& json, std::map<std::string, T>& out) {
  if (!json.is_object()) return r.WrongType(path, "an object", json);
  out.clear();
  for (const auto& [key, value] : json.items()) {
    if (r.failed()) return;
    Read(r, FieldPath(path, std::string_view(key)), value, out[key]);
  }
}
template <typename T>
requires std::is_class_v<T>
void Read(ParseState& r, const FieldPath& path, const Json& json, T& out) {
  JsonObjectReader reader(r, path, json);
  Fields(reader, out);
  reader.Finish();
}

// A process is two fields of the object that it belongs to, or an object of its own.
template <typename V, Of<ProcessId> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v.Required("start_time", x.start_time);
  v.Check(x.pid >= 0, "pid", "it is negative");
}

template <typename V, Of<Error> T>
void Fields(V& v, T& x) {
  std::string code(ToString(x.code));
  v.Required("code", code);
  if constexpr (V::kReads) x.code = ErrorCodeFromString(code);
  v.Required("message", x.message);
  v("hint", x.hint);
}

// --- text

// nullopt: this is no JSON.
std::optional<Json> Parse(std::string_view text);
// As one line, without a line end.
std::string Dump(const Json& json);

template <typename T>
Result<T> FromJson(const Json& json, const JsonFormat& format, std::string_view what) {
  ParseState state{.format = format};
  T value{};
  Read(state, {}, json, value);
  if (state.failed()) return base::Fail(state.code, fmt::format("{} cannot be read: {}", what, state.error));
  return value;
}

// Sets the fields of the patch in `value`, and leaves the others as they are. `list`: as for Patched().
template <typename T, typename F>
Result<> Apply(const Patch<T>& patch, const JsonFormat& format, T& value, F&& list) {
  ParseState state{.format = format};
  JsonObjectReader reader(state, {}, patch.fields);
  reader.Change(value, std::forward<F>(list));
  if (state.failed()) return base::Fail(state.code, state.error);
  return {};
}

// kCorrupt, or kNotSupported for a version that is not known here: "WHAT cannot be read: jobs[0].memory: …".
template <typename T>
Result<T> FromText(std::string_view text, const JsonFormat& format, std::string_view what) {
  const auto json = Parse(text);
  if (!json) return base::Fail(ErrorCode::kCorrupt, fmt::format("{} cannot be read: it is no JSON", what));
  return FromJson<T>(*json, format, what);
}

template <typename T>
std::string ToText(const T& value, const JsonFormat& format) {
  return Dump(Write(format, value));
}

}  // namespace gpuman::base::json
