#include "keeper/protocol.h"

#include "keeper/fields.h"

namespace gpuman::keeper {
namespace {

using base::json::FromText;
using base::json::ToText;

template <typename V>
void CheckSignal(V& v, int signal) {
  v.Check(signal >= 1 && signal <= 64, "signal", "it is no signal number");
}

// A message and its kind, "m".
template <typename Message>
struct Packet {
  Message message;
};
template <typename V, typename Message>
void Fields(V& v, Packet<Message>& x) {
  v.Variant("m", x.message);
}
template <typename V, typename Message>
void Fields(V& v, const Packet<Message>& x) {
  v.Variant("m", x.message);
}

}  // namespace

constexpr std::string_view NameOf(const KeeperHello&) { return "hello"; }
template <typename V, base::json::Of<KeeperHello> T>
void Fields(V& v, T& x) {
  v.Required("version", x.version);
  v.Required("job", x.job_id);
  v.Required("keeper", x.keeper);
  v("cgroup", x.cgroup);
  v.Required("phase", x.phase);
  v.Required("run", x.run);
  v.Option("process", x.process);
  v.Required("last_seq", x.last_seq);
  v("shortens", x.shortens);
  v("holds", x.holds);
}

constexpr std::string_view NameOf(const JournalRecord&) { return "record"; }

constexpr std::string_view NameOf(const Reply&) { return "reply"; }
template <typename V, base::json::Of<Reply> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Option("error", x.error);
}

constexpr std::string_view NameOf(const SetEndReason&) { return "reason"; }
template <typename V, base::json::Of<SetEndReason> T>
void Fields(V& v, T& x) {
  v("run", x.run);
  v.Required("reason", x.reason);
  v("final", x.final);
}

constexpr std::string_view NameOf(const StopJob&) { return "stop"; }
constexpr std::string_view NameOf(const RestartJob&) { return "restart"; }
template <typename V, typename T>
requires(base::json::Of<T, StopJob> || base::json::Of<T, RestartJob>) void Fields(V& v, T& x) {
  v("reason", x.reason);
  v.Option("signal", x.signal);
  if (x.signal) CheckSignal(v, *x.signal);
  v.Option("grace_ms", x.grace);
  if (x.grace) v.Valid(CheckTime(*x.grace, "grace_ms"));
}

constexpr std::string_view NameOf(const UpdateSettings&) { return "update"; }
template <typename V, base::json::Of<UpdateSettings> T>
void Fields(V& v, T& x) {
  v.Option("restart", x.restart);
  v.Option("log_size_limit", x.log_size_limit);
  v.Option("log_rotations", x.log_rotations);
  if (x.log_rotations) v.Valid(CheckRotations(*x.log_rotations));
  v.Option("stop_grace_ms", x.stop_grace);
  if (x.stop_grace) v.Valid(CheckTime(*x.stop_grace, "stop_grace_ms"));
  v.Option("time_limit_ms", x.time_limit);
  if (x.time_limit) v.Valid(CheckTime(*x.time_limit, "time_limit_ms"));
}

constexpr std::string_view NameOf(const SendSignalTo&) { return "signal"; }
template <typename V, base::json::Of<SendSignalTo> T>
void Fields(V& v, T& x) {
  v.Required("signal", x.signal);
  CheckSignal(v, x.signal);
  v("tree", x.tree);
}

constexpr std::string_view NameOf(const SetClockPaused&) { return "clock"; }
template <typename V, base::json::Of<SetClockPaused> T>
void Fields(V& v, T& x) {
  v.Required("paused", x.paused);
}

constexpr std::string_view NameOf(const WriteLogNote&) { return "note"; }
template <typename V, base::json::Of<WriteLogNote> T>
void Fields(V& v, T& x) {
  v.Required("text", x.text);
}

constexpr std::string_view NameOf(const RecordsStored&) { return "stored"; }
template <typename V, base::json::Of<RecordsStored> T>
void Fields(V& v, T& x) {
  v.Required("up_to", x.up_to);
}

constexpr std::string_view NameOf(const HoldFile&) { return "hold"; }
template <typename V, base::json::Of<HoldFile> T>
void Fields(V&, T&) {}

constexpr std::string_view NameOf(const ClientHello&) { return "hello"; }
template <typename V, base::json::Of<ClientHello> T>
void Fields(V& v, T& x) {
  v.Required("min_version", x.min_version);
  v.Required("max_version", x.max_version);
}

template <typename V, base::json::Of<NumberedCommand> T>
void Fields(V& v, T& x) {
  v.Variant("m", x.command);
  v.Required("id", x.id);
}

namespace {

using FromKeeper = Packet<KeeperMessage>;
using Greeting = Packet<std::variant<ClientHello>>;

}  // namespace

std::string SerializeMessage(const KeeperMessage& message) { return ToText(FromKeeper{message}, kFormat); }

base::Result<KeeperMessage> ParseKeeperMessage(std::string_view packet) {
  GPUMAN_ASSIGN(auto parsed, FromText<FromKeeper>(packet, kFormat, "the keeper's message"));
  return std::move(parsed.message);
}

std::string SerializeMessage(const ClientMessage& message) {
  if (const auto* const hello = std::get_if<ClientHello>(&message)) return ToText(Greeting{*hello}, kFormat);
  return ToText(std::get<NumberedCommand>(message), kFormat);
}

base::Result<ClientMessage> ParseClientMessage(std::string_view packet) {
  auto greeting = FromText<Greeting>(packet, kFormat, "the message");
  if (greeting) return std::get<ClientHello>(greeting->message);
  if (greeting.error().code != base::ErrorCode::kNotSupported) return base::Fail(std::move(greeting.error()));
  GPUMAN_ASSIGN(auto command, FromText<NumberedCommand>(packet, kFormat, "the message"));
  return command;
}

std::uint64_t MessageId(std::string_view packet) {
  const auto json = base::json::Parse(packet);
  if (!json || !json->is_object()) return 0;
  const auto id = json->find("id");
  return id == json->end() ? 0 : base::WholeNumber<std::uint64_t>(*id).value_or(0);
}

std::string SerializeSettings(const UpdateSettings& settings) { return ToText(settings, kFormat); }

base::Result<UpdateSettings> ParseSettings(std::string_view text) {
  return FromText<UpdateSettings>(text, kFormat, "settings");
}

}  // namespace gpuman::keeper
