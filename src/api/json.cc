#include "api/json.h"

#include <array>
#include <charconv>
#include <cmath>

#include "api/json_codec.h"
#include "api/json_fields.h"
#include "api/json_health.h"
#include "api/json_mig.h"
#include "api/json_mps.h"
#include "api/json_share.h"
#include "api/json_types.h"
#include "base/json_number.h"
#include "base/utf8.h"

namespace gpuman::api {

namespace fields {

Json Write(base::Millis value) {
  if (value.count() % 1000 == 0) return value.count() / 1000;
  return static_cast<double>(value.count()) / 1000;
}

Json Write(const base::SizeSpec& value) {
  if (!value.IsRelative()) return value.bytes.count;
  std::array<char, 400> text{};  // the longest double without an exponent has fewer than 350 characters
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value.percent, std::chars_format::fixed).ptr;
  return std::string(text.data(), end) + "%";
}

void Reading::WrongType(const std::string& path, std::string_view expected, const Json& found) {
  const std::string_view kind = found.is_number_float()     ? "a fraction"
                                : found.is_number_integer() ? "an integer"
                                : found.is_string()         ? "a string"
                                : found.is_object()         ? "an object"
                                : found.is_array()          ? "an array"
                                : found.is_boolean()        ? "a boolean"
                                                            : "null";
  Fail(path, fmt::format("{} was expected, not {}", expected, kind));
}

void Read(Reading& r, const std::string& path, const Json& json, bool& out) {
  if (!json.is_boolean()) return r.WrongType(path, "a boolean", json);
  out = json.get<bool>();
}

void Read(Reading& r, const std::string& path, const Json& json, double& out) {
  if (!json.is_number()) return r.WrongType(path, "a number", json);
  out = json.get<double>();
}

// An argument, a path or a variable ends at a NUL, so a request must not hide one.
void Read(Reading& r, const std::string& path, const Json& json, std::string& out) {
  if (!json.is_string()) return r.WrongType(path, "a string", json);
  out = json.get<std::string>();
  if (r.strict && out.find('\0') != std::string::npos) r.Fail(path, "a string holds a NUL character");
}

void ReadInteger(Reading& r, const std::string& path, const Json& json, std::int64_t least, std::int64_t most,
                 std::int64_t& out) {
  if (!json.is_number_integer()) return r.WrongType(path, "an integer", json);
  const auto number = base::WholeNumber<std::int64_t>(json);
  out = number.value_or(0);
  if (!number || out < least || out > most)
    r.Fail(path, fmt::format("{} lies outside {} to {}", Dump(json), least, most));
}

void Read(Reading& r, const std::string& path, const Json& json, base::Bytes& out) {
  if (r.strict && json.is_string()) {
    const auto parsed = base::ParseBytes(json.get_ref<const std::string&>());
    if (!parsed) return r.Fail(path, parsed.error().message);
    out = *parsed;
    return;
  }
  const auto count = base::WholeNumber<std::uint64_t>(json);
  if (!count) return r.WrongType(path, "a number of bytes", json);
  out.count = *count;
}

void Read(Reading& r, const std::string& path, const Json& json, base::WallTime& out) {
  if (!json.is_string()) return r.WrongType(path, "a time", json);
  const auto time = base::ParseIso8601(json.get_ref<const std::string&>());
  if (!time) return r.Fail(path, time.error().message);
  out = *time;
}

void Read(Reading& r, const std::string& path, const Json& json, base::Millis& out) {
  constexpr double kLongest = 3.2e10;  // seconds; as in base::ParseDuration
  if (json.is_string()) {
    const auto parsed = base::ParseDuration(json.get_ref<const std::string&>());
    if (!parsed) return r.Fail(path, parsed.error().message);
    out = *parsed;
  } else if (json.is_number()) {
    const double seconds = json.get<double>();
    if (!(seconds >= 0 && seconds < kLongest))
      return r.Fail(path, "a time is at least 0 and shorter than a thousand years");
    out = base::Millis(std::llround(seconds * 1000));
  } else {
    r.WrongType(path, "seconds or a string such as \"30s\"", json);
  }
}

void Read(Reading& r, const std::string& path, const Json& json, base::SizeSpec& out) {
  std::string text;
  if (json.is_string())
    text = json.get<std::string>();
  else if (json.is_number_integer())
    text = Dump(json);
  else
    return r.WrongType(path, "bytes or a string such as \"8GiB\"", json);
  const auto parsed = base::ParseSize(text);
  if (!parsed) return r.Fail(path, parsed.error().message);
  out = *parsed;
}

template <typename T, typename Parse>
void ReadWord(Reading& r, const std::string& path, const Json& json, std::string_view what, Parse parse,
              T& out) {
  if (!json.is_string()) return r.WrongType(path, what, json);
  const auto& word = json.get_ref<const std::string&>();
  const auto value = parse(word);
  if (!value) return r.Fail(path, fmt::format("'{}' is not {}", word, what));
  out = *value;
}

void Read(Reading& r, const std::string& path, const Json& json, JobState& out) {
  ReadWord(r, path, json, "a job state", JobStateFromString, out);
}
void Read(Reading& r, const std::string& path, const Json& json, RestartPolicy& out) {
  ReadWord(r, path, json, "a restart policy (no, on-failure, always)", RestartPolicyFromString, out);
}
void Read(Reading& r, const std::string& path, const Json& json, DependencyKind& out) {
  ReadWord(r, path, json, "a kind of dependency (afterok, afterany, afternotok, after)",
           DependencyKindFromString, out);
}
void Read(Reading& r, const std::string& path, const Json& json, DependencyMode& out) {
  ReadWord(r, path, json, "a mode of dependencies (all, any)", DependencyModeFromString, out);
}

}  // namespace fields

constexpr bool IsRequest(const RunRequest*) { return true; }
constexpr bool IsRequest(const UpdateRequest*) { return true; }
constexpr bool IsRequest(const PlaceRequest*) { return true; }
constexpr bool IsRequest(const HealthAcknowledgement*) { return true; }
constexpr bool IsRequest(const ShareUpdate*) { return true; }

static void CheckPriority(fields::Reading& r, int priority) {
  if (priority < 0 || priority > 255) r.Fail("priority", fmt::format("{} lies outside 0 to 255", priority));
}

// Rules that types cannot express.
static void Check(fields::Reading& r, const RunRequest& request) {
  if (request.tag.empty()) r.Fail("tag", "it is empty");
  if (request.command.empty() || request.command.front().empty()) r.Fail("command", "it is empty");
  if (!request.directory.empty() && request.directory.front() != '/')
    r.Fail("directory", fmt::format("'{}' is not absolute", request.directory));
  if (request.umask > 0777) r.Fail("umask", fmt::format("{} lies outside 0 to 511", request.umask));
  CheckPriority(r, request.priority);
  for (const auto& [name, value] : request.environment)
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos)
      r.Fail("environment", fmt::format("'{}' is no name of a variable", name));
}
static void Check(fields::Reading& r, const UpdateRequest& request) {
  if (request.priority) CheckPriority(r, *request.priority);
}

Json ToJson(const RunRequest& value) { return fields::Write(value); }
Json ToJson(const UpdateRequest& value) { return fields::Write(value); }
Json ToJson(const PlaceRequest& value) { return fields::Write(value); }
Json ToJson(const JobView& value) { return fields::Write(value); }
Json ToJson(const GpuView& value) { return fields::Write(value); }
Json ToJson(const ProcessView& value) { return fields::Write(value); }
Json ToJson(const EventView& value) { return fields::Write(value); }
Json ToJson(const StatusView& value) { return fields::Write(value); }
Json ToJson(const JobList& value) { return fields::Write(value); }
Json ToJson(const GpuList& value) { return fields::Write(value); }
Json ToJson(const EventList& value) { return fields::Write(value); }
Json ToJson(const VersionView& value) { return fields::Write(value); }
Json ToJson(const HealthReport& value) { return fields::Write(value); }
Json ToJson(const HealthAcknowledgement& value) { return fields::Write(value); }
Json ToJson(const MigReport& value) { return fields::Write(value); }
Json ToJson(const MigRequest& value) { return fields::Write(value); }
Json ToJson(const MigChanges& value) { return fields::Write(value); }
Json ToJson(const MpsReport& value) { return fields::Write(value); }
Json ToJson(const MpsOrder& value) { return fields::Write(value); }
Json ToJson(const MpsStop& value) { return fields::Write(value); }
Json ToJson(const MpsTermination& value) { return fields::Write(value); }
Json ToJson(const ShareUpdate& value) { return fields::Write(value); }
Json ToJson(const ShareView& value) { return fields::Write(value); }

Json ToJson(const base::Error& error) {
  Json inner = Json::object();
  inner["code"] = std::string(base::ToString(error.code));
  inner["message"] = error.message;
  inner["hint"] = error.hint.empty() ? Json(nullptr) : Json(error.hint);
  return Json{{"error", std::move(inner)}};
}

base::Result<Json> ParseJson(std::string_view text) {
  if (!base::IsUtf8(text)) return base::Fail(base::ErrorCode::kInvalidArgument, "the text is not UTF-8");
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    std::string_view why = error.what();  // "[json.exception…] parse error at …: …; last read: '…'"
    if (const auto bracket = why.find("] "); bracket != why.npos) why.remove_prefix(bracket + 2);
    if (const auto last = why.find("; last read"); last != why.npos) why = why.substr(0, last);
    return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("the text is not JSON: {}", why));
  }
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

GPUMAN_CODEC(RunRequest);
GPUMAN_CODEC(UpdateRequest);
GPUMAN_CODEC(PlaceRequest);
GPUMAN_CODEC(JobView);
GPUMAN_CODEC(GpuView);
GPUMAN_CODEC(EventView);
GPUMAN_CODEC(StatusView);
GPUMAN_CODEC(JobList);
GPUMAN_CODEC(GpuList);
GPUMAN_CODEC(EventList);
GPUMAN_CODEC(VersionView);
GPUMAN_CODEC(ShareUpdate);
GPUMAN_CODEC(ShareView);
GPUMAN_CODEC(HealthReport);
GPUMAN_CODEC(HealthAcknowledgement);
GPUMAN_CODEC(MigReport);
GPUMAN_CODEC(MigRequest);
GPUMAN_CODEC(MigChanges);
GPUMAN_CODEC(MpsReport);
GPUMAN_CODEC(MpsOrder);
GPUMAN_CODEC(MpsStop);
GPUMAN_CODEC(MpsTermination);
template std::string Encode<base::Error>(const base::Error&);

int HttpStatusOf(base::ErrorCode code) {
  using enum base::ErrorCode;
  switch (code) {
    case kInvalidArgument:
      return 400;
    case kPermissionDenied:
      return 403;
    case kNotFound:
      return 404;
    case kAlreadyExists:
    case kConflict:
      return 409;
    case kUnsatisfiable:
      return 422;
    case kNotSupported:
      return 501;
    case kUnavailable:
      return 503;
    case kTimeout:
      return 504;
    case kExhausted:
      return 507;
    case kCorrupt:
    case kInternal:
      break;
  }
  return 500;
}

// If a daemon says that it could not reach something, or waited too long for it, the daemon itself was
// reached.
static base::ErrorCode Answered(base::ErrorCode code) {
  const bool is_about_others = code == base::ErrorCode::kUnavailable || code == base::ErrorCode::kTimeout;
  return is_about_others ? base::ErrorCode::kConflict : code;
}

base::Error ErrorOfAnswer(int http_status, std::string_view body) {
  const auto json = ParseJson(body);
  const auto text = [](const Json& object, const char* name) {
    const auto it = object.find(name);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  if (json && json->is_object()) {
    if (const auto it = json->find("error"); it != json->end() && it->is_object())
      return {Answered(base::ErrorCodeFromString(text(*it, "code"))), text(*it, "message"),
              text(*it, "hint")};
  }
  using enum base::ErrorCode;
  for (const auto code : {kInvalidArgument, kPermissionDenied, kNotFound, kConflict, kUnsatisfiable,
                          kNotSupported, kUnavailable, kTimeout, kExhausted})
    if (HttpStatusOf(code) == http_status)
      return {code, fmt::format("the daemon answered with HTTP status {}", http_status), {}};
  return {kInternal, fmt::format("the daemon answered with HTTP status {}", http_status), {}};
}

}  // namespace gpuman::api
