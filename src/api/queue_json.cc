#include "api/queue_json.h"

#include "api/json_codec.h"
#include "api/json_queue.h"
#include "api/queue_check.h"

namespace gpuman::api {

constexpr bool IsRequest(const SubmitRequest*) { return true; }
constexpr bool IsRequest(const RunOptionsPatch*) { return true; }
constexpr bool IsRequest(const JobUpdate*) { return true; }
constexpr bool IsRequest(const RedoRequest*) { return true; }
constexpr bool IsRequest(const CancelRequest*) { return true; }
constexpr bool IsRequest(const QueueSettingsUpdate*) { return true; }
constexpr bool IsRequest(const ReservationRequest*) { return true; }
constexpr bool IsRequest(const QuotaUpdate*) { return true; }
constexpr bool IsRequest(const IgnoreRuleView*) { return true; }

GPUMAN_CODEC(SubmitRequest);
GPUMAN_CODEC(SubmissionAnswer);
GPUMAN_CODEC(RunOptionsPatch);
GPUMAN_CODEC(JobUpdate);
GPUMAN_CODEC(RedoRequest);
GPUMAN_CODEC(CancelRequest);
GPUMAN_CODEC(CancelAnswer);
GPUMAN_CODEC(QueueInfo);
GPUMAN_CODEC(QueueSettings);
GPUMAN_CODEC(QueueSettingsUpdate);
GPUMAN_CODEC(ReservationRequest);
GPUMAN_CODEC(Reservation);
GPUMAN_CODEC(ReservationList);
GPUMAN_CODEC(QuotaUpdate);
GPUMAN_CODEC(Quota);
GPUMAN_CODEC(QuotaList);
GPUMAN_CODEC(IgnoreRuleView);
GPUMAN_CODEC(IgnoreRuleList);
GPUMAN_CODEC(StatsView);

namespace {

template <typename T, typename F>
base::Result<> Set(const base::json::Patch<T>& patch, T& options, F&& list) {
  base::json::JsonFormat format = kFormat;
  format.strict = true;
  auto set = base::json::Apply(patch, format, options, std::forward<F>(list));
  if (!set) return base::Fail(base::ErrorCode::kInvalidArgument, std::move(set.error().message));
  return {};
}

// The options of a list of fields with their values; null: the option has none.
template <typename Options, typename F>
Json ValuesOf(const Options& options, F&& list) {
  base::json::JsonFormat format = kFormat;
  format.defaults = true;
  base::json::JsonObjectWriter writer(format);
  list(writer, options);
  return std::move(writer).Take();
}

constexpr auto kUpdateFields = [](auto& list, auto& options) { spec::UpdateFields(list, options); };
constexpr auto kQueueUpdateFields = [](auto& list, auto& options) {
  spec::RequestUpdateFields(list, options);
};

constexpr auto kRunOptionFields = [](auto& list, auto& options) { spec::RunOptionFields(list, options); };
constexpr auto kOptionFields = [](auto& list, auto& options) { spec::OptionFields(list, options); };

// "notify.mails" -> "notify", "mails"; "cpus" -> "cpus", "".
std::pair<std::string, std::string> Split(const std::string& name) {
  const auto dot = name.find('.');
  if (dot == std::string::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace

base::Result<> SetOptions(const RunOptionsPatch& patch, spec::RunOptions& options) {
  return Set(patch, options, kUpdateFields);
}

base::Result<> SetOptions(const OptionsPatch& patch, spec::JobRequest& options) {
  return Set(patch, options, kQueueUpdateFields);
}

base::Result<> SetLimits(const QuotaUpdate& patch, QuotaLimits& limits) {
  return Set(patch, limits, [](auto& list, auto& fields) { Fields(list, fields); });
}

void AddOption(const spec::JobRequest& options, const std::string& name, JobUpdate& update) {
  if (const Json values = ValuesOf(options, kUpdateFields); values.contains(name)) {
    update.job.fields[name] = values[name];
    return;
  }
  if (!update.queue) update.queue.emplace();
  const auto [whole, part] = Split(name);
  const Json value = ValuesOf(options, kQueueUpdateFields).at(whole);
  Json& field = update.queue->options.fields[whole];
  if (part.empty())
    field = value;
  else
    field[part] = value.at(part);
}

bool MayChange(const std::string& name) {
  if (ValuesOf(spec::JobRequest{}, kUpdateFields).contains(name)) return true;
  const auto [whole, part] = Split(name);
  const Json values = ValuesOf(spec::JobRequest{}, kQueueUpdateFields);
  return values.contains(whole) && (part.empty() || values.at(whole).contains(part));
}

bool MayChangeWhileRunning(const std::string& name) {
  return ValuesOf(spec::RunOptions{}, kUpdateFields).contains(name);
}

bool IsRunOption(const std::string& name) {
  return ValuesOf(spec::RunOptions{}, kRunOptionFields).contains(name);
}

std::vector<std::string> ChangedOptions(const spec::JobOptions& options) {
  const Json usual = ValuesOf(spec::JobOptions{}, kOptionFields);
  const Json values = ValuesOf(options, kOptionFields);
  std::vector<std::string> changed;
  for (const auto& [name, value] : values.items())
    if (value != usual.at(name)) changed.push_back(name);
  return changed;
}

bool MayBeAbsent(const std::string& name) {
  JobUpdate update;
  AddOption({}, name, update);
  const auto& fields = update.queue ? update.queue->options.fields : update.job.fields;
  const auto [whole, part] = Split(name);
  const Json& value = part.empty() ? fields.at(whole) : fields.at(whole).at(part);
  return value.is_null() || (value.is_array() && value.empty());
}

base::Result<> Check(const Submission& job) {
  base::json::ParseState state{.format = kFormat};
  CheckSubmission(state, "", job);
  if (state.failed()) return base::Fail(base::ErrorCode::kInvalidArgument, std::move(state.error));
  return {};
}

}  // namespace gpuman::api
