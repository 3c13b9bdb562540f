// Internal to the codec: makes FromJson, Decode and Encode for a type whose fields are known.
//
// A request type has an IsRequest(const T*) that says so, and may have a Check(Reading&, const T&) for rules
// that types cannot express; both are found in the type's own namespace.
#pragma once

#include <utility>

#include "api/json.h"
#include "api/json_fields.h"

namespace gpuman::api {

constexpr bool IsRequest(const void*) { return false; }
template <typename T>
void Check(fields::Reading&, const T&) {}

template <typename T>
base::Result<T> FromJson(const Json& json) {
  fields::Reading reading;
  reading.strict = IsRequest(static_cast<const T*>(nullptr));
  T value;
  fields::Read(reading, "", json, value);
  if (!reading.failed()) Check(reading, value);
  if (reading.failed()) return base::Fail(base::ErrorCode::kInvalidArgument, std::move(reading.error));
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
  template base::Result<T> FromJson<T>(const Json&);    \
  template base::Result<T> Decode<T>(std::string_view); \
  template std::string Encode<T>(const T&)

}  // namespace gpuman::api
