// The JSON of the HTTP API: one codec for the daemon and for its clients.
//
// Field names are those of types.h, nested as in docs/api/openapi.yaml (`utilization:{gpu,memory}`). Requests
// are read strictly: an unknown field is refused by its name, since a misspelt limit that the daemon ignored
// would limit nothing. Answers are read leniently: a newer daemon may add fields. Errors name wrong types
// with their path ("jobs[0].memory.limit: an integer was expected, not a string").
//
//   sizes      in requests an integer or a string ("8GiB", "50%"); in answers integers
//   durations  in requests seconds as a number or a string ("30s"); in answers seconds as a number
//   times      ISO 8601 UTC strings
//   updates    an absent field stays as it is; null takes a value away, or makes it the usual one
//
// Text that is not UTF-8 is refused when read and replaced by U+FFFD when written (names of processes may
// hold any byte). Pure functions; thread-safe; they throw no exception.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "api/health_types.h"
#include "api/history_types.h"
#include "api/mig_types.h"
#include "api/mps_types.h"
#include "api/share_types.h"
#include "api/types.h"
#include "base/result.h"

namespace gpuman::api {

// Keeps the order of fields, so that people read the same order everywhere.
using Json = nlohmann::ordered_json;

Json ToJson(const base::Error& error);  // {"error":{"code":…,"message":…,"hint":…}}

// T: each body and each answer of routes.h, and what these are made of, as far as a GPUMAN_CODEC names it.
template <typename T>
Json ToJson(const T& value);
// The message of kInvalidArgument has the path.
template <typename T>
base::Result<T> FromJson(const Json& json);

// kInvalidArgument: the message has the position of the first text that is no JSON.
base::Result<Json> ParseJson(std::string_view text);
// As one line, without a line end.
std::string Dump(const Json& json);

// From and to text, for callers that need no Json in between.
template <typename T>
base::Result<T> Decode(std::string_view text);
template <typename T>
std::string Encode(const T& value);

// The status of an HTTP answer for an error, and the error for an answer: from its body if gpumand wrote it,
// else from the status alone.
int HttpStatusOf(base::ErrorCode code);
base::Error ErrorOfAnswer(int http_status, std::string_view body);

}  // namespace gpuman::api
