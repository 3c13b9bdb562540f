#include "suspend/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_number.h"

namespace gpuman::suspend {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using Json = nlohmann::json;

constexpr std::array<std::pair<SuspensionPhase, const char*>, 7> kPhases{
    {{SuspensionPhase::kRunning, "running"},
     {SuspensionPhase::kSuspending, "suspending"},
     {SuspensionPhase::kSuspended, "suspended"},
     {SuspensionPhase::kResuming, "resuming"},
     {SuspensionPhase::kUndoing, "undoing"},
     {SuspensionPhase::kRetreating, "retreating"},
     {SuspensionPhase::kEnded, "ended"}}};

bool Take(const Json& object, const char* name, std::string& out) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string()) return false;
  out = it->get<std::string>();
  return true;
}

bool TakePhase(const Json& object, SuspensionPhase& out) {
  std::string word;
  if (!Take(object, "phase", word)) return false;
  for (const auto& [phase, known] : kPhases) {
    if (word != known) continue;
    out = phase;
    return true;
  }
  return false;
}

bool TakeHeld(const Json& object, std::map<base::ProcessId, BytesByGpu>& held) {
  const auto list = object.find("held");
  if (list == object.end() || !list->is_array()) return false;
  for (const Json& entry : *list) {
    if (!entry.is_object()) return false;
    const auto pid = entry.find("pid"), start = entry.find("start_time"), gpus = entry.find("gpus");
    if (pid == entry.end() || start == entry.end() || gpus == entry.end()) return false;
    const auto number = base::WholeNumber<pid_t>(*pid);
    const auto started = base::WholeNumber<std::uint64_t>(*start);
    if (!number || *number < 0 || !started || !gpus->is_object()) return false;
    BytesByGpu bytes;
    for (const auto& [gpu, count] : gpus->items()) {
      const auto whole = base::WholeNumber<std::uint64_t>(count);
      if (!whole) return false;
      bytes[gpu] = {*whole};
    }
    held[{*number, *started}] = std::move(bytes);
  }
  return true;
}

bool TakeAbsence(const Json& object, std::optional<Absence>& out) {
  const auto it = object.find("absence");
  if (it == object.end()) return true;
  if (!it->is_object()) return false;
  Absence absence;
  const auto lasts = it->find("room_lasts_ms");
  if (!Take(*it, "reason", absence.reason) || !Take(*it, "cause", absence.cause) || lasts == it->end())
    return false;
  const auto length = base::WholeNumber<std::uint64_t>(*lasts);
  if (!length) return false;
  absence.room_lasts = base::Millis(static_cast<std::int64_t>(std::min<std::uint64_t>(*length, INT32_MAX)));
  out = std::move(absence);
  return true;
}

}  // namespace

std::string_view ToString(SuspensionPhase phase) {
  for (const auto& [known, word] : kPhases)
    if (known == phase) return word;
  return "?";
}

std::string_view JobStateOf(SuspensionPhase phase) {
  switch (phase) {
    case SuspensionPhase::kSuspended:
    case SuspensionPhase::kResuming:
    case SuspensionPhase::kRetreating:
      return "suspended";
    default:
      return "running";
  }
}

std::string ReturnsTo(const SuspensionRecord& record, const base::ProcessId& process) {
  if (record.target) return *record.target;
  const auto held = record.held.find(process);
  return held == record.held.end() || held->second.size() != 1 ? "" : held->second.begin()->first;
}

std::string SerializeRecord(const SuspensionRecord& record) {
  Json held = Json::array();
  for (const auto& [process, gpus] : record.held) {
    Json bytes = Json::object();
    for (const auto& [gpu, count] : gpus) bytes[gpu] = count.count;
    held.push_back({{"pid", process.pid}, {"start_time", process.start_time}, {"gpus", std::move(bytes)}});
  }
  Json json{{"phase", ToString(record.phase)},
            {"wants_gpu", record.wants_gpu},
            {"reason", record.reason},
            {"detail", record.detail},
            {"held", std::move(held)}};
  if (record.target) json["target"] = *record.target;
  if (const auto& absence = record.absence)
    json["absence"] = {{"reason", absence->reason},
                       {"cause", absence->cause},
                       {"room_lasts_ms", static_cast<std::uint64_t>(absence->room_lasts.count())}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<SuspensionRecord> ParseRecord(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  SuspensionRecord record;
  const auto wants = json.is_object() ? json.find("wants_gpu") : json.end();
  if (!json.is_object() || wants == json.end() || !wants->is_boolean() || !TakePhase(json, record.phase) ||
      !Take(json, "reason", record.reason) || !Take(json, "detail", record.detail) ||
      !TakeHeld(json, record.held) || !TakeAbsence(json, record.absence))
    return Fail(ErrorCode::kCorrupt, "this is no record of a suspended job");
  record.wants_gpu = wants->get<bool>();
  if (json.contains("target") && !Take(json, "target", record.target.emplace()))
    return Fail(ErrorCode::kCorrupt, "the target in a suspended job's record is wrong");
  return record;
}

}  // namespace gpuman::suspend
