// Internal to the codec: makes ToJson, FromJson, Decode and Encode for a type whose fields are known.
//
// A request type has an IsRequest(const T*) that says so, and may have a Check(ParseState&, const T&) for
// rules that types cannot express; both are found in the type's own namespace.
#pragma once

#include <utility>

#include "api/json.h"
#include "base/json.h"

namespace gpuman::api {

inline constexpr base::json::JsonFormat kFormat{.durations = base::json::DurationForm::kSeconds};

constexpr bool IsRequest(const void*) { return false; }
template <typename T>
void Check(base::json::ParseState&, const T&) {}

template <typename T>
Json ToJson(const T& value) {
  return base::json::Write(kFormat, value);
}

template <typename T>
base::Result<T> FromJson(const Json& json) {
  base::json::ParseState state{.format = kFormat};
  state.format.strict = IsRequest(static_cast<const T*>(nullptr));
  T value;
  base::json::Read(state, {}, json, value);
  if (!state.failed()) Check(state, value);
  if (state.failed()) return base::Fail(base::ErrorCode::kInvalidArgument, std::move(state.error));
  return value;
}

template <typename T>
base::Result<T> Decode(std::string_view text) {
  GPUMAN_ASSIGN(const Json json, ParseJson(text));
  return FromJson<T>(json);
}

template <typename T>
std::string Encode(const T& value) {
  return Dump(ToJson(value));
}

#define GPUMAN_CODEC(T)                                 \
  template Json ToJson<T>(const T&);                    \
  template base::Result<T> FromJson<T>(const Json&);    \
  template base::Result<T> Decode<T>(std::string_view); \
  template std::string Encode<T>(const T&)

}  // namespace gpuman::api
