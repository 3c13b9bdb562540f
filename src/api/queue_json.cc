#include "api/queue_json.h"

#include "api/json_codec.h"
#include "api/json_queue.h"
#include "api/queue_check.h"

namespace gpuman::api {

constexpr bool IsRequest(const SubmitRequest*) { return true; }
constexpr bool IsRequest(const JobUpdate*) { return true; }
constexpr bool IsRequest(const RedoRequest*) { return true; }
constexpr bool IsRequest(const CancelRequest*) { return true; }
constexpr bool IsRequest(const QueueSettingsUpdate*) { return true; }
constexpr bool IsRequest(const ReservationRequest*) { return true; }
constexpr bool IsRequest(const QuotaUpdate*) { return true; }
constexpr bool IsRequest(const IgnoredProcess*) { return true; }

#define GPUMAN_QUEUE_CODEC(T)                                               \
  Json ToJson(const T& value) { return base::json::Write(kFormat, value); } \
  GPUMAN_CODEC(T)
GPUMAN_QUEUE_CODEC(SubmitRequest);
GPUMAN_QUEUE_CODEC(SubmissionAnswer);
GPUMAN_QUEUE_CODEC(JobUpdate);
GPUMAN_QUEUE_CODEC(RedoRequest);
GPUMAN_QUEUE_CODEC(CancelRequest);
GPUMAN_QUEUE_CODEC(CancelAnswer);
GPUMAN_QUEUE_CODEC(QueueInfo);
GPUMAN_QUEUE_CODEC(QueueSettings);
GPUMAN_QUEUE_CODEC(QueueSettingsUpdate);
GPUMAN_QUEUE_CODEC(ReservationRequest);
GPUMAN_QUEUE_CODEC(Reservation);
GPUMAN_QUEUE_CODEC(ReservationList);
GPUMAN_QUEUE_CODEC(QuotaUpdate);
GPUMAN_QUEUE_CODEC(Quota);
GPUMAN_QUEUE_CODEC(QuotaList);
GPUMAN_QUEUE_CODEC(IgnoredProcess);
GPUMAN_QUEUE_CODEC(IgnoredProcessList);
GPUMAN_QUEUE_CODEC(StatsView);
#undef GPUMAN_QUEUE_CODEC

base::Result<> SetOptions(const OptionsPatch& patch, spec::JobOptions& options) {
  base::json::Format format = kFormat;
  format.strict = true;
  auto set = base::json::Apply(patch, format, options,
                               [](auto& list, auto& fields) { spec::OptionFields(list, fields); });
  if (!set) return base::Fail(base::ErrorCode::kInvalidArgument, std::move(set.error().message));
  return {};
}

Json OptionOf(const spec::JobOptions& options, const std::string& name) {
  base::json::Format format = kFormat;
  format.defaults = true;
  base::json::Writer writer(format);
  spec::OptionFields(writer, options);
  const Json all = std::move(writer).Take();
  const auto it = all.find(name);
  return it == all.end() ? Json(nullptr) : *it;
}

base::Result<> Check(const Submission& job) {
  base::json::Reading reading{.format = kFormat};
  CheckSubmission(reading, "", job);
  if (reading.failed()) return base::Fail(base::ErrorCode::kInvalidArgument, std::move(reading.error));
  return {};
}

}  // namespace gpuman::api
