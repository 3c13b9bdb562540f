#include "suspend/request.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace gpuman::suspend {
namespace {

constexpr base::json::JsonFormat kFormat{};
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 44;  // what a ledger can count
constexpr std::size_t kMaxMessage = 1'000;
constexpr std::size_t kMaxUuid = 64;

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

bool IsDuration(base::Millis time) { return time.count() >= 0 && time.count() <= UINT32_MAX; }

bool HasBytes(Verb verb) { return verb == Verb::kPrepare || verb == Verb::kGrant; }

base::Result<> CheckLength(std::string_view line) {
  if (line.size() > kMaxLine) return base::Fail(base::ErrorCode::kCorrupt, "the line is too long");
  return {};
}

}  // namespace

static base::json::Json Write(const base::json::JsonFormat&, const GpuMove& move) {
  return base::json::Json::array({move.from, move.to});
}
static void Read(base::json::ParseState& r, const base::json::FieldPath& path, const base::json::Json& json,
                 GpuMove& move) {
  std::vector<std::string> pair;
  Read(r, path, json, pair);
  if (pair.size() != 2) return r.Fail(path, "it is no pair of GPUs");
  move = {std::move(pair[0]), std::move(pair[1])};
}

template <typename V, base::json::Of<MoverRequest> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Required("do", x.verb);
  v.Changed("gpu", x.gpu);
  if (HasBytes(x.verb)) v.Required("bytes", x.bytes);
  if (x.verb == Verb::kPrepare) {
    v.Changed("each", x.each);
    v.Changed("unchanged", x.unchanged);
    v.Changed("hash_from", x.hash_from, kWorthHashing);
    v.Changed("check_kept_ms", x.check_kept, kCheckKept);
    v.Check(IsDuration(x.check_kept) && x.check_kept.count() > 0, "check_kept_ms", "it is no time to wait");
    v.Option("keep", x.keep);
  }
  v.Changed("whole", x.whole);
  v.Option("room", x.room);
  v.Changed("first", x.first);
  v.Changed("lane", x.source);
  if (!IsAboutProcess(x.verb)) return;
  Fields(v, x.process);
  v.Check(x.process.pid != 0, "pid", "it is no process");
  if (x.verb == Verb::kCheckpoint) {
    v.Required("lock_timeout_ms", x.lock_timeout);
    v.Check(IsDuration(x.lock_timeout) && x.lock_timeout.count() > 0, "lock_timeout_ms",
            "it is no time to wait");
  }
  v.Changed("gpus", x.gpus);
}

template <typename V, base::json::Of<MoverAnswer> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Required("outcome", x.outcome);
  v.Required("state", x.state);
  v.Changed("bytes", x.bytes);
  v.Check(x.bytes.count <= kMaxBytes, "bytes", "it is more than a ledger counts");
  v.Changed("unchanged", x.unchanged);
  v.Check(x.unchanged <= x.bytes, "unchanged", "it is more than what moved");
  v.Changed("misjudged", x.misjudged);
  v.Check(x.misjudged <= x.bytes.count, "misjudged", "it is more than what moved");
  v.Changed("kept", x.kept);
  v.Check(x.kept.count <= kMaxBytes, "kept", "it is more than a ledger counts");
  v.Changed("damaged", x.damaged);
  v.Check(x.damaged <= kMaxBytes, "damaged", "it is more than a ledger counts");
  v.Changed("milliseconds", x.took);
  v.Check(IsDuration(x.took), "milliseconds", "it is no duration");
  v.Changed("pieces", x.pieces);
  v.Changed("straight", x.straight);
  v.Changed("gpu", x.gpu);
  v.Check(x.gpu.size() <= kMaxUuid, "gpu", "it is no UUID");
  v.Changed("message", x.message);
}

base::Bytes SumOf(const HostDemand& demand) {
  base::Bytes sum;
  for (const auto& [gpu, processes] : demand)
    for (const base::Bytes bytes : processes) sum += bytes;
  return sum;
}

bool IsLast(MoverOutcome outcome) {
  return outcome != MoverOutcome::kHolding && outcome != MoverOutcome::kTaken &&
         outcome != MoverOutcome::kMoving;
}

bool MayAnswer(const MoverRequest& request, const MoverAnswer& answer) {
  if (answer.outcome == MoverOutcome::kTaken) return request.verb == Verb::kTake && request.whole;
  return true;
}

std::string_view ToString(Verb verb) { return base::WordOf(WordsOf(verb), verb); }
std::string_view ToString(MoverOutcome outcome) { return base::WordOf(WordsOf(outcome), outcome); }
std::string_view ToString(DriverState state) { return base::WordOf(WordsOf(state), state); }

std::string Serialize(const MoverRequest& request) { return base::json::ToText(request, kFormat); }
std::string Serialize(const MoverAnswer& answer) { return base::json::ToText(answer, kFormat); }

base::Result<MoverRequest> ParseRequest(std::string_view line) {
  GPUMAN_TRY(CheckLength(line));
  return base::json::FromText<MoverRequest>(line, kFormat, "a request to gpuman-mover");
}

base::Result<MoverAnswer> ParseAnswer(std::string_view line) {
  GPUMAN_TRY(CheckLength(line));
  GPUMAN_ASSIGN(auto answer, base::json::FromText<MoverAnswer>(line, kFormat, "an answer of gpuman-mover"));
  answer.message = Shown(answer.message);
  return answer;
}

}  // namespace gpuman::suspend
