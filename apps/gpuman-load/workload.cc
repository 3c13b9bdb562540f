#include "workload.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "blocks.h"
#include "exit_code.h"
#include "session.h"

namespace gpuman::load {
namespace {

using base::Bytes;
using base::Result;
using Json = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

class Workload {
 public:
  Workload(const Options& options, Report& report, Session& session, unsigned child)
      : options_(options),
        report_(report),
        session_(session),
        blocks_(options, report, session, std::uint64_t{child} << 32) {}

  Result<> Run();
  // Checks all blocks; false if data is wrong.
  Result<bool> Verify() {
    GPUMAN_TRY(blocks_.Spoil());
    return blocks_.Verify();
  }
  Bytes total() const { return blocks_.total(); }
  std::uint64_t iterations() const { return iterations_; }

 private:
  Result<> RefuseTooMuchManaged();
  Result<> Iterate();
  Result<> Hold();

  const Options& options_;
  Report& report_;
  Session& session_;
  Blocks blocks_;
  std::uint64_t iterations_ = 0;
};

Result<> Workload::RefuseTooMuchManaged() {
  if (options_.api != Api::kManaged) return {};
  const Bytes wanted = blocks_.Of(options_.alloc) + blocks_.Of(options_.jump);
  GPUMAN_ASSIGN(const Bytes free, session_.Free());
  if (wanted <= free) return {};
  return base::Fail(base::ErrorCode::kExhausted, base::FormatBytes(wanted) +
                                                     " of managed memory refused: the device has " +
                                                     base::FormatBytes(free) + " free");
}

Result<> Workload::Iterate() {
  const auto start = SteadyClock::now();
  if (options_.kernel_time.count() > 0) GPUMAN_TRY(session_.Spin(options_.kernel_time));
  GPUMAN_TRY(blocks_.Add());
  GPUMAN_TRY(session_.Synchronize());
  const std::chrono::duration<double> busy = SteadyClock::now() - start;
  report_.Event("iteration", {{"number", ++iterations_}, {"seconds", busy.count()}});
  std::this_thread::sleep_for(busy * (1 / options_.duty - 1));
  return {};
}

Result<> Workload::Hold() {
  const auto end = SteadyClock::now() + options_.hold;
  if (options_.iterations == 0 && options_.kernel_time.count() > 0)
    while (SteadyClock::now() < end) GPUMAN_TRY(Iterate());
  std::this_thread::sleep_until(end);
  return {};
}

Result<> Workload::Run() {
  std::error_code ignored;  // errors count as a missing file
  GPUMAN_TRY(RefuseTooMuchManaged());
  if (!options_.jump_all) GPUMAN_TRY(blocks_.Climb());
  while (iterations_ < options_.iterations) GPUMAN_TRY(Iterate());
  if (!options_.until.empty())
    while (!std::filesystem::exists(options_.until, ignored)) GPUMAN_TRY(Iterate());
  GPUMAN_TRY(Hold());
  if (options_.jump_all || options_.jump) {
    GPUMAN_TRY(blocks_.Take(blocks_.Of(options_.jump_all ? options_.alloc : options_.jump)));
    GPUMAN_TRY(Hold());
  }
  return {};
}

// Does the whole work; the session ends with it, so that the "done" event comes after all memory was freed.
int Work(const Options& options, Report& report, unsigned child, Json& summary) {
  const auto fail = [&](const base::Error& error) { return report.Failed(error); };
  const auto cuda = driver::CudaDriver::Load();
  if (!cuda) return fail(cuda.error());
  const auto before = MonotonicNs();
  const auto session = Session::Open(*cuda, options.device, options.verify);
  if (!session) return fail(session.error());
  ReportContext(report, **session, options.device, before);

  Workload workload(options, report, **session, child);
  const auto ran = workload.Run();
  int code = ran ? kDone : fail(ran.error());
  // An allocation that failed must not have damaged the data of the others.
  if (code != kDriverError) {
    const auto right = workload.Verify();
    if (!right)
      code = fail(right.error());
    else if (!*right)
      code = kDataWrong;
  }
  summary = {{"total", workload.total().count}, {"iterations", workload.iterations()}};
  return code;
}

}  // namespace

void ReportContext(Report& report, const Session& session, int ordinal, std::uint64_t before_ns) {
  const auto free = session.Free();
  report.Event("context", {{"device", ordinal},
                           {"uuid", session.device().uuid},
                           {"name", session.device().name},
                           {"memory", session.device().memory.count},
                           {"free", free ? Json(free->count) : Json()},
                           {"before_ns", before_ns}});
}

int RunWorkload(const Options& options, Report& report, unsigned child) {
  report.Event("start", {{"api", ToString(options.api)}, {"child", child}});
  Json summary = Json::object();
  const int code = Work(options, report, child, summary);
  summary["exit"] = code;
  report.Event("done", summary);
  return code;
}

}  // namespace gpuman::load
