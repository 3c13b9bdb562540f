#include "api/json.h"

#include <fmt/format.h>

#include "api/json_codec.h"
#include "api/json_health.h"
#include "api/json_history.h"
#include "api/json_mig.h"
#include "api/json_mps.h"
#include "api/json_share.h"
#include "api/json_types.h"
#include "base/json.h"
#include "base/utf8.h"
#include "spec/option_rules.h"

namespace gpuman::api {

constexpr bool IsRequest(const RunRequest*) { return true; }
constexpr bool IsRequest(const ResumeOrMoveRequest*) { return true; }
constexpr bool IsRequest(const HealthAcknowledgement*) { return true; }
constexpr bool IsRequest(const ShareUpdate*) { return true; }

// Rules that types cannot express.
static void Check(base::json::ParseState& r, const RunRequest& request) {
  if (request.tag.empty()) r.Fail("tag", "it is empty");
  if (request.command.empty() || request.command.front().empty()) r.Fail("command", "it is empty");
  const auto report = [&r](std::string_view field, const std::string& problem) {
    if (!r.failed()) r.Fail(field, problem);
  };
  spec::CheckDirectory(request.directory, report);
  spec::CheckUmask(request.umask, report);
  spec::CheckRunOptions(request, report);
  spec::CheckEnvironment(request.environment, report);
}

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

std::string Dump(const Json& json) { return base::json::Dump(json); }

GPUMAN_CODEC(RunRequest);
GPUMAN_CODEC(ResumeOrMoveRequest);
GPUMAN_CODEC(JobView);
GPUMAN_CODEC(JobStory);
GPUMAN_CODEC(GpuView);
GPUMAN_CODEC(EventView);
GPUMAN_CODEC(ProcessView);
GPUMAN_CODEC(StatusView);
GPUMAN_CODEC(JobList);
GPUMAN_CODEC(GpuList);
GPUMAN_CODEC(EventList);
GPUMAN_CODEC(VersionView);
GPUMAN_CODEC(WebPageView);
GPUMAN_CODEC(ShareUpdate);
GPUMAN_CODEC(ShareView);
GPUMAN_CODEC(HealthReport);
GPUMAN_CODEC(HealthAcknowledgement);
GPUMAN_CODEC(HistoryView);
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
