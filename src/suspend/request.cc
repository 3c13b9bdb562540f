#include "suspend/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json_number.h"

namespace gpuman::suspend {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using Json = nlohmann::json;

constexpr std::array<std::pair<Verb, const char*>, 13> kVerbs{{{Verb::kCan, "can"},
                                                               {Verb::kState, "state"},
                                                               {Verb::kCheckpoint, "checkpoint"},
                                                               {Verb::kRestore, "restore"},
                                                               {Verb::kUnlock, "unlock"},
                                                               {Verb::kTake, "take"},
                                                               {Verb::kSecure, "secure"},
                                                               {Verb::kLoad, "load"},
                                                               {Verb::kHold, "hold"},
                                                               {Verb::kGive, "give"},
                                                               {Verb::kForget, "forget"},
                                                               {Verb::kPrepare, "prepare"},
                                                               {Verb::kGrant, "grant"}}};
constexpr std::array<std::pair<Outcome, const char*>, 13> kOutcomes{{{Outcome::kDone, "done"},
                                                                     {Outcome::kNoCuda, "no_cuda"},
                                                                     {Outcome::kGone, "gone"},
                                                                     {Outcome::kNothing, "nothing"},
                                                                     {Outcome::kTimeout, "timeout"},
                                                                     {Outcome::kNoRoom, "no_room"},
                                                                     {Outcome::kRefused, "refused"},
                                                                     {Outcome::kUnsupported, "unsupported"},
                                                                     {Outcome::kFailed, "failed"},
                                                                     {Outcome::kHolding, "holding"},
                                                                     {Outcome::kTaken, "taken"},
                                                                     {Outcome::kMoving, "moving"},
                                                                     {Outcome::kLost, "lost"}}};
constexpr std::array<std::pair<Saved, const char*>, 5> kStates{{{Saved::kUnknown, "unknown"},
                                                                {Saved::kRunning, "running"},
                                                                {Saved::kLocked, "locked"},
                                                                {Saved::kCheckpointed, "checkpointed"},
                                                                {Saved::kBroken, "failed"}}};

template <typename Table, typename Value>
std::string_view WordOf(const Table& table, Value value) {
  for (const auto& [known, word] : table)
    if (known == value) return word;
  return "?";
}

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 44;  // what a ledger can count
constexpr std::size_t kMaxMessage = 1'000;

// Makes a message safe to show: it goes into records and events, and to terminals.
std::string Shown(std::string_view message) {
  std::size_t end = std::min(message.size(), kMaxMessage);
  while (end < message.size() && end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  std::string shown(message.substr(0, end));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return shown;
}

bool IsAboutProcess(Verb verb) { return verb != Verb::kCan && verb != Verb::kPrepare; }

bool HasBytes(Verb verb) { return verb == Verb::kPrepare || verb == Verb::kGrant; }

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> ParseObject(std::string_view line) {
  if (line.size() > kMaxLine) return Fail(ErrorCode::kCorrupt, "the line is too long");
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Fail(ErrorCode::kCorrupt, "the line is no JSON object");
  return json;
}

tl::unexpected<base::Error> Wrong(const char* field) {
  return Fail(ErrorCode::kCorrupt, fmt::format("the field {} is missing or wrong", field));
}

template <typename Integer>
std::optional<Integer> IntegerOf(const Json& object, const char* field) {
  const auto it = object.find(field);
  if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
  return base::WholeNumber<Integer>(*it);
}

template <typename Table>
auto WordIn(const Json& object, const char* field, const Table& table)
    -> std::optional<decltype(table[0].first)> {
  const auto it = object.find(field);
  if (it == object.end() || !it->is_string()) return std::nullopt;
  const auto& text = it->template get_ref<const std::string&>();
  for (const auto& [value, word] : table)
    if (text == word) return value;
  return std::nullopt;
}

Result<std::vector<GpuMove>> MovesOf(const Json& object) {
  std::vector<GpuMove> moves;
  const auto it = object.find("gpus");
  if (it == object.end()) return moves;
  if (!it->is_array()) return Wrong("gpus");
  for (const Json& pair : *it) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      return Wrong("gpus");
    moves.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
  }
  return moves;
}

}  // namespace

bool IsLast(Outcome outcome) {
  return outcome != Outcome::kHolding && outcome != Outcome::kTaken && outcome != Outcome::kMoving;
}

bool MayAnswer(const Request& request, const Answer& answer) {
  if (answer.outcome == Outcome::kTaken) return request.verb == Verb::kTake && request.whole;
  return true;
}

std::string_view ToString(Verb verb) { return WordOf(kVerbs, verb); }
std::string_view ToString(Outcome outcome) { return WordOf(kOutcomes, outcome); }
std::string_view ToString(Saved state) { return WordOf(kStates, state); }

std::string Serialize(const Request& request) {
  Json json{{"id", request.id}, {"do", ToString(request.verb)}};
  if (!request.gpu.empty()) json["gpu"] = request.gpu;
  if (HasBytes(request.verb)) json["bytes"] = request.bytes.count;
  if (request.whole) json["whole"] = true;
  if (request.room) json["room"] = request.room->count;
  if (request.first != 0) json["first"] = request.first;
  if (IsAboutProcess(request.verb)) {
    json["pid"] = request.process.pid;
    json["start_time"] = request.process.start_time;
  }
  if (request.verb == Verb::kCheckpoint) json["lock_timeout_ms"] = request.lock_timeout.count();
  if (!request.gpus.empty()) {
    Json pairs = Json::array();
    for (const GpuMove& move : request.gpus) pairs.push_back(Json::array({move.from, move.to}));
    json["gpus"] = std::move(pairs);
  }
  return Dump(json);
}

std::string Serialize(const Answer& answer) {
  Json json{{"id", answer.id}, {"outcome", ToString(answer.outcome)}, {"state", ToString(answer.state)}};
  if (answer.bytes.count != 0) json["bytes"] = answer.bytes.count;
  if (answer.took.count() != 0) json["milliseconds"] = answer.took.count();
  if (answer.pieces != 0) json["pieces"] = answer.pieces;
  if (answer.straight) json["straight"] = true;
  if (!answer.message.empty()) json["message"] = answer.message;
  return Dump(json);
}

Result<Request> ParseRequest(std::string_view line) {
  GPUMAN_ASSIGN(const Json json, ParseObject(line));
  Request request;
  const auto id = IntegerOf<std::uint64_t>(json, "id");
  if (!id) return Wrong("id");
  request.id = *id;
  const auto verb = WordIn(json, "do", kVerbs);
  if (!verb) return Wrong("do");
  request.verb = *verb;
  if (const auto gpu = json.find("gpu"); gpu != json.end()) {
    if (!gpu->is_string()) return Wrong("gpu");
    request.gpu = gpu->get<std::string>();
  }
  if (HasBytes(request.verb)) {
    const auto bytes = IntegerOf<std::uint64_t>(json, "bytes");
    if (!bytes) return Wrong("bytes");
    request.bytes = {*bytes};
  }
  if (const auto whole = json.find("whole"); whole != json.end()) {
    if (!whole->is_boolean()) return Wrong("whole");
    request.whole = whole->get<bool>();
  }
  if (json.contains("room")) {
    const auto room = IntegerOf<std::uint64_t>(json, "room");
    if (!room) return Wrong("room");
    request.room = base::Bytes{*room};
  }
  if (json.contains("first")) {
    const auto first = IntegerOf<std::uint64_t>(json, "first");
    if (!first) return Wrong("first");
    request.first = *first;
  }
  if (!IsAboutProcess(request.verb)) return request;
  const auto pid = IntegerOf<pid_t>(json, "pid");
  if (!pid || *pid == 0) return Wrong("pid");
  const auto start_time = IntegerOf<std::uint64_t>(json, "start_time");
  if (!start_time) return Wrong("start_time");
  request.process = {*pid, *start_time};
  if (request.verb == Verb::kCheckpoint) {
    const auto limit = IntegerOf<std::uint32_t>(json, "lock_timeout_ms");
    if (!limit || *limit == 0) return Wrong("lock_timeout_ms");
    request.lock_timeout = base::Millis(*limit);
  }
  if (request.verb == Verb::kRestore) {
    GPUMAN_ASSIGN(request.gpus, MovesOf(json));
  }
  return request;
}

Result<Answer> ParseAnswer(std::string_view line) {
  GPUMAN_ASSIGN(const Json json, ParseObject(line));
  Answer answer;
  const auto id = IntegerOf<std::uint64_t>(json, "id");
  if (!id) return Wrong("id");
  const auto outcome = WordIn(json, "outcome", kOutcomes);
  if (!outcome) return Wrong("outcome");
  const auto state = WordIn(json, "state", kStates);
  if (!state) return Wrong("state");
  answer.id = *id;
  answer.outcome = *outcome;
  answer.state = *state;
  if (json.contains("bytes")) {
    const auto bytes = IntegerOf<std::uint64_t>(json, "bytes");
    if (!bytes || *bytes > kMaxBytes) return Wrong("bytes");
    answer.bytes = {*bytes};
  }
  if (json.contains("milliseconds")) {
    const auto took = IntegerOf<std::uint32_t>(json, "milliseconds");
    if (!took) return Wrong("milliseconds");
    answer.took = base::Millis(*took);
  }
  if (json.contains("pieces")) {
    const auto pieces = IntegerOf<std::uint64_t>(json, "pieces");
    if (!pieces) return Wrong("pieces");
    answer.pieces = *pieces;
  }
  if (const auto straight = json.find("straight"); straight != json.end()) {
    if (!straight->is_boolean()) return Wrong("straight");
    answer.straight = straight->get<bool>();
  }
  if (const auto message = json.find("message"); message != json.end()) {
    if (!message->is_string()) return Wrong("message");
    answer.message = Shown(message->get_ref<const std::string&>());
  }
  return answer;
}

}  // namespace gpuman::suspend
