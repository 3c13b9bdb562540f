// One record of the journal as JSON and back; the fields are listed in docs/keeper.md.
#include <array>

#include "keeper/journal.h"
#include "keeper/json.h"
#include "keeper/record_json.h"

namespace gpuman::keeper {
namespace {

Json ReasonToJson(const Reason& reason) {
  return {{"word", ToJson(reason.word)}, {"detail", ToJson(reason.detail)}};
}

constexpr std::array<std::pair<EndKind, std::string_view>, 3> kKinds{
    {{EndKind::kExited, "exited"}, {EndKind::kSignalled, "signalled"}, {EndKind::kUnknown, "unknown"}}};

std::string_view KindWord(EndKind kind) {
  for (const auto& [k, word] : kKinds)
    if (k == kind) return word;
  return "unknown";
}
std::optional<EndKind> KindFromWord(std::string_view text) {
  for (const auto& [kind, word] : kKinds)
    if (word == text) return kind;
  return std::nullopt;
}

// One pair of functions for each kind of record: Write puts the fields in, Read takes them out.
constexpr std::string_view TypeWord(const KeeperStarted&) { return "keeper"; }
constexpr std::string_view TypeWord(const RunStarted&) { return "run"; }
constexpr std::string_view TypeWord(const StartFailed&) { return "start_failed"; }
constexpr std::string_view TypeWord(const RunEnded&) { return "exit"; }
constexpr std::string_view TypeWord(const StopOrdered&) { return "stop"; }
constexpr std::string_view TypeWord(const RestartScheduled&) { return "restart"; }
constexpr std::string_view TypeWord(const SettingsChanged&) { return "settings"; }
constexpr std::string_view TypeWord(const RestartOrdered&) { return "restart_ordered"; }
constexpr std::string_view TypeWord(const ClockPaused&) { return "clock"; }
constexpr std::string_view TypeWord(const JobEnded&) { return "end"; }

void Write(Json& json, const KeeperStarted& body) {
  json["process"] = ToJson(body.keeper);
  json["boot"] = body.boot_id;
  json["cgroup"] = ToJson(body.cgroup);
  json["key"] = body.key;
  json["program"] = body.program_version;
}
void Read(Fields& fields, KeeperStarted& body) {
  fields.Need("process", body.keeper);
  fields.Need("boot", body.boot_id);
  fields.Take("cgroup", body.cgroup);
  fields.Need("key", body.key);
  fields.Take("program", body.program_version);
}

void Write(Json& json, const RunStarted& body) {
  json["run"] = body.run;
  json["process"] = ToJson(body.process);
  if (!body.notes.empty()) json["notes"] = ToJson(body.notes);
}
void Read(Fields& fields, RunStarted& body) {
  fields.Need("run", body.run);
  fields.Need("process", body.process);
  fields.Take("notes", body.notes);
}

void Write(Json& json, const StartFailed& body) {
  json["run"] = body.run;
  json["stage"] = ToJson(body.stage);
  json["errno"] = body.error_number;
  json["message"] = ToJson(body.message);
}
void Read(Fields& fields, StartFailed& body) {
  fields.Need("run", body.run);
  fields.Need("stage", body.stage);
  fields.Need("errno", body.error_number);
  fields.Need("message", body.message);
}

void Write(Json& json, const RunEnded& body) {
  json["run"] = body.run;
  json["kind"] = KindWord(body.kind);
  json["code"] = body.code;
  if (body.core_dumped) json["core"] = true;
  json["lasted_ms"] = ToJson(body.lasted);
  json["user_us"] = body.usage.user_cpu.count();
  json["system_us"] = body.usage.system_cpu.count();
  json["max_rss"] = ToJson(body.usage.max_rss);
  if (body.ordered) json["reason"] = ReasonToJson(*body.ordered);
}
void Read(Fields& fields, RunEnded& body) {
  fields.Need("run", body.run);
  fields.NeedWord("kind", body.kind, KindFromWord);
  fields.Need("code", body.code);
  fields.Take("core", body.core_dumped);
  fields.Need("lasted_ms", body.lasted);
  fields.Take("user_us", body.usage.user_cpu);
  fields.Take("system_us", body.usage.system_cpu);
  fields.Take("max_rss", body.usage.max_rss);
  fields.Take("reason", body.ordered);
}

void Write(Json& json, const StopOrdered& body) { json["reason"] = ReasonToJson(body.reason); }
void Read(Fields& fields, StopOrdered& body) { fields.Need("reason", body.reason); }

void Write(Json& json, const RestartOrdered& body) { json["reason"] = ReasonToJson(body.reason); }
void Read(Fields& fields, RestartOrdered& body) { fields.Need("reason", body.reason); }

void Write(Json& json, const RestartScheduled& body) {
  json["run"] = body.run;
  json["delay_ms"] = ToJson(body.delay);
  json["in_a_row"] = body.in_a_row;
  if (body.ordered) json["reason"] = ReasonToJson(*body.ordered);
}
void Read(Fields& fields, RestartScheduled& body) {
  fields.Need("run", body.run);
  fields.Need("delay_ms", body.delay);
  fields.Need("in_a_row", body.in_a_row);
  fields.Take("reason", body.ordered);
}

void Write(Json& json, const SettingsChanged& body) { json["settings"] = ToJson(body.settings); }
void Read(Fields& fields, SettingsChanged& body) { fields.Need("settings", body.settings); }

void Write(Json& json, const ClockPaused& body) { json["paused"] = body.paused; }
void Read(Fields& fields, ClockPaused& body) { fields.Need("paused", body.paused); }

void Write(Json& json, const JobEnded& body) {
  json["last_run"] = body.last_run;
  json["why"] = ToJson(body.why);
}
void Read(Fields& fields, JobEnded& body) {
  fields.Need("last_run", body.last_run);
  fields.Need("why", body.why);
}

// Tries each alternative of the variant whose word is `type`.
template <std::size_t Index = 0>
bool ReadBody(Fields& fields, std::string_view type, RecordBody& out) {
  if constexpr (Index == std::variant_size_v<RecordBody>) {
    return false;
  } else {
    std::variant_alternative_t<Index, RecordBody> body;
    if (TypeWord(body) != type) return ReadBody<Index + 1>(fields, type, out);
    Read(fields, body);
    out = std::move(body);
    return true;
  }
}

}  // namespace

bool FromJson(const Json& json, Reason& out) {
  Fields fields(json);
  fields.Need("word", out.word);
  fields.Take("detail", out.detail);
  return fields.ok();
}

Json ToJson(const Reason& reason) { return ReasonToJson(reason); }

Json RecordToJson(const JournalRecord& record) {
  Json json = {{"seq", record.seq},
               {"wall_ms", record.wall.time_since_epoch().count()},
               {"mono_ms", ToJson(record.mono)}};
  std::visit(
      [&](const auto& body) {
        json["t"] = TypeWord(body);
        Write(json, body);
      },
      record.body);
  return json;
}

base::Result<JournalRecord> RecordFromJson(const Json& json) {
  Fields fields(json);
  JournalRecord record;
  std::string type;
  base::Millis wall{0};
  fields.Need("seq", record.seq);
  fields.Need("wall_ms", wall);
  fields.Need("mono_ms", record.mono);
  fields.Need("t", type);
  record.wall = base::WallTime(wall);
  if (fields.ok() && !ReadBody(fields, type, record.body))
    return base::Fail(base::ErrorCode::kNotSupported, "journal record: unknown type " + type);
  GPUMAN_TRY(fields.Finish("journal record"));
  return record;
}

std::string SerializeRecord(const JournalRecord& record) { return Dump(RecordToJson(record)); }

base::Result<JournalRecord> ParseRecord(std::string_view text) {
  GPUMAN_ASSIGN(const Json json, ParseJson(text, "journal record"));
  return RecordFromJson(json);
}

}  // namespace gpuman::keeper
