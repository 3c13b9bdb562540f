#include "keeper/protocol.h"

#include <array>

#include "keeper/record_json.h"
#include "keeper/settings_json.h"

namespace gpuman::keeper {
namespace {

using base::ErrorCode;
using base::Fail;

constexpr std::array<std::pair<KeeperPhase, std::string_view>, 6> kPhases{{
    {KeeperPhase::kLaunching, "launching"},
    {KeeperPhase::kRunning, "running"},
    {KeeperPhase::kStopping, "stopping"},
    {KeeperPhase::kLeftovers, "leftovers"},
    {KeeperPhase::kWaiting, "waiting"},
    {KeeperPhase::kEnded, "ended"},
}};

Json MessageToJson(const Hello& hello) {
  Json json = {{"m", "hello"},
               {"version", hello.version},
               {"job", hello.job_id},
               {"keeper", ToJson(hello.keeper)},
               {"cgroup", ToJson(hello.cgroup)},
               {"phase", ToString(hello.phase)},
               {"run", hello.run},
               {"last_seq", hello.last_seq},
               {"shortens", hello.shortens}};
  if (hello.process) json["process"] = ToJson(*hello.process);
  return json;
}

base::Result<KeeperMessage> HelloFromJson(Fields& fields) {
  Hello hello;
  fields.Need("version", hello.version);
  fields.Need("job", hello.job_id);
  fields.Need("keeper", hello.keeper);
  fields.Take("cgroup", hello.cgroup);
  fields.NeedWord("phase", hello.phase, PhaseFromString);
  fields.Need("run", hello.run);
  fields.Take("process", hello.process);
  fields.Need("last_seq", hello.last_seq);
  fields.Take("shortens", hello.shortens);
  GPUMAN_TRY(fields.Finish("hello"));
  return hello;
}

Json MessageToJson(const JournalRecord& record) {
  Json json = RecordToJson(record);
  json["m"] = "record";
  return json;
}

Json MessageToJson(const Reply& reply) {
  Json json = {{"m", "reply"}, {"id", reply.id}};
  if (reply.error)
    json["error"] = {{"code", base::ToString(reply.error->code)},
                     {"message", ToJson(reply.error->message)},
                     {"hint", ToJson(reply.error->hint)}};
  return json;
}

base::Result<KeeperMessage> ReplyFromJson(Fields& fields) {
  Reply reply;
  fields.Need("id", reply.id);
  if (const Json* object = fields.Find("error")) {
    Fields inner(*object);
    std::string code, message, hint;
    inner.Need("code", code);
    inner.Need("message", message);
    inner.Take("hint", hint);
    GPUMAN_TRY(inner.Finish("reply"));
    reply.error = base::Error{base::ErrorCodeFromString(code), message, hint};
  }
  GPUMAN_TRY(fields.Finish("reply"));
  return reply;
}

Json CommandToJson(const AnnounceReason& command) {
  return {
      {"m", "reason"}, {"run", command.run}, {"reason", ToJson(command.reason)}, {"final", command.final}};
}
Json CommandToJson(const StopJob& command) {
  Json json = {{"m", "stop"}, {"reason", ToJson(command.reason)}};
  Put(json, "signal", command.signal);
  Put(json, "grace_ms", command.grace);
  return json;
}
Json CommandToJson(const RestartJob& command) {
  Json json = {{"m", "restart"}, {"reason", ToJson(command.reason)}};
  Put(json, "signal", command.signal);
  Put(json, "grace_ms", command.grace);
  return json;
}
Json CommandToJson(const UpdateSettings& command) {
  Json json = {{"m", "update"}};
  if (command.restart) json["restart"] = PolicyToJson(*command.restart);
  Put(json, "log_size_limit", command.log_size_limit);
  Put(json, "log_rotations", command.log_rotations);
  Put(json, "stop_grace_ms", command.stop_grace);
  Put(json, "time_limit_ms", command.time_limit);
  return json;
}
Json CommandToJson(const SendSignalTo& command) {
  return {{"m", "signal"}, {"signal", command.signal}, {"tree", command.tree}};
}
Json CommandToJson(const PauseClock& command) { return {{"m", "clock"}, {"paused", command.paused}}; }
Json CommandToJson(const WriteNote& command) { return {{"m", "note"}, {"text", ToJson(command.text)}}; }
Json CommandToJson(const RecordsStored& command) { return {{"m", "stored"}, {"up_to", command.up_to}}; }

void CheckSignal(Fields& fields, int signal) {
  if (signal < 1 || signal > 64) fields.Complain("signal is no signal number");
}

// Stop and restart carry the same fields.
template <typename Order>
Order OrderFromJson(Fields& fields) {
  Order order;
  fields.Take("reason", order.reason);
  fields.Take("signal", order.signal);
  fields.Take("grace_ms", order.grace);
  if (order.signal) CheckSignal(fields, *order.signal);
  if (order.grace)
    if (auto checked = CheckTime(*order.grace, "grace_ms"); !checked)
      fields.Complain(checked.error().message);
  return order;
}

UpdateSettings SettingsFromJson(Fields& fields) {
  UpdateSettings update;
  if (fields.Find("restart")) TakePolicy(fields, "restart", update.restart.emplace());
  fields.Take("log_size_limit", update.log_size_limit);
  fields.Take("log_rotations", update.log_rotations);
  fields.Take("stop_grace_ms", update.stop_grace);
  fields.Take("time_limit_ms", update.time_limit);
  if (update.time_limit)
    if (auto checked = CheckTime(*update.time_limit, "time_limit_ms"); !checked)
      fields.Complain(checked.error().message);
  if (update.stop_grace)
    if (auto checked = CheckTime(*update.stop_grace, "stop_grace_ms"); !checked)
      fields.Complain(checked.error().message);
  if (update.log_rotations)
    if (auto checked = CheckRotations(*update.log_rotations); !checked)
      fields.Complain(checked.error().message);
  return update;
}

std::optional<Command> CommandFromJson(Fields& fields, std::string_view word) {
  if (word == "reason") {
    AnnounceReason command;
    fields.Take("run", command.run);
    fields.Need("reason", command.reason);
    fields.Take("final", command.final);
    return command;
  }
  if (word == "stop") return OrderFromJson<StopJob>(fields);
  if (word == "restart") return OrderFromJson<RestartJob>(fields);
  if (word == "update") return SettingsFromJson(fields);
  if (word == "signal") {
    SendSignalTo command;
    fields.Need("signal", command.signal);
    fields.Take("tree", command.tree);
    CheckSignal(fields, command.signal);
    return command;
  }
  if (word == "clock") {
    PauseClock command;
    fields.Need("paused", command.paused);
    return command;
  }
  if (word == "note") {
    WriteNote command;
    fields.Need("text", command.text);
    return command;
  }
  if (word == "stored") {
    RecordsStored command;
    fields.Need("up_to", command.up_to);
    return command;
  }
  return std::nullopt;
}

}  // namespace

std::string_view ToString(KeeperPhase phase) {
  for (const auto& [p, word] : kPhases)
    if (p == phase) return word;
  return "ended";
}

std::optional<KeeperPhase> PhaseFromString(std::string_view text) {
  for (const auto& [phase, word] : kPhases)
    if (word == text) return phase;
  return std::nullopt;
}

std::string SerializeMessage(const KeeperMessage& message) {
  return Dump(std::visit([](const auto& m) { return MessageToJson(m); }, message));
}

base::Result<KeeperMessage> ParseKeeperMessage(std::string_view packet) {
  GPUMAN_ASSIGN(const Json json, ParseJson(packet, "the keeper's message"));
  Fields fields(json);
  std::string word;
  fields.Need("m", word);
  GPUMAN_TRY(fields.Finish("the keeper's message"));
  if (word == "hello") return HelloFromJson(fields);
  if (word == "reply") return ReplyFromJson(fields);
  if (word != "record") return Fail(ErrorCode::kNotSupported, "the keeper's message: unknown kind " + word);
  GPUMAN_ASSIGN(auto record, RecordFromJson(json));
  return record;
}

std::string SerializeMessage(const ClientMessage& message) {
  if (const auto* hello = std::get_if<ClientHello>(&message))
    return Dump({{"m", "hello"}, {"min_version", hello->min_version}, {"max_version", hello->max_version}});
  const auto& numbered = std::get<NumberedCommand>(message);
  Json json = std::visit([](const auto& command) { return CommandToJson(command); }, numbered.command);
  json["id"] = numbered.id;
  return Dump(json);
}

base::Result<ClientMessage> ParseClientMessage(std::string_view packet) {
  GPUMAN_ASSIGN(const Json json, ParseJson(packet, "the message"));
  Fields fields(json);
  std::string word;
  fields.Need("m", word);
  GPUMAN_TRY(fields.Finish("the message"));
  if (word == "hello") {
    ClientHello hello;
    fields.Need("min_version", hello.min_version);
    fields.Need("max_version", hello.max_version);
    GPUMAN_TRY(fields.Finish("hello"));
    return hello;
  }
  std::uint64_t id = 0;
  fields.Need("id", id);
  auto command = CommandFromJson(fields, word);
  if (!command) return Fail(ErrorCode::kNotSupported, "unknown command " + word);
  GPUMAN_TRY(fields.Finish(word));
  return NumberedCommand{id, std::move(*command)};
}

std::uint64_t MessageId(std::string_view packet) {
  const auto json = ParseJson(packet, "the message");
  std::uint64_t id = 0;
  if (json) Fields(*json).Take("id", id);
  return id;
}

std::string SerializeSettings(const UpdateSettings& settings) {
  Json json = CommandToJson(settings);
  json.erase("m");
  return Dump(json);
}

base::Result<UpdateSettings> ParseSettings(std::string_view text) {
  GPUMAN_ASSIGN(const Json json, ParseJson(text, "settings"));
  Fields fields(json);
  UpdateSettings settings = SettingsFromJson(fields);
  GPUMAN_TRY(fields.Finish("settings"));
  return settings;
}

}  // namespace gpuman::keeper
