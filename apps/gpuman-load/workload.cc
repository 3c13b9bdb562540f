#include "workload.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "allocators.h"
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
      : options_(options), report_(report), session_(session), seed_(std::uint64_t{child} << 32) {}

  Result<> Run();
  // Checks all blocks; false if data is wrong.
  Result<bool> Verify();
  Bytes total() const { return total_; }
  std::uint64_t iterations() const { return iterations_; }

 private:
  struct Taken {
    std::unique_ptr<Block> block;
    std::uint64_t seed;
    std::uint64_t added = 0;
  };

  Result<> RefuseTooMuchManaged();
  Result<> Take(Bytes size);
  Result<> Climb();
  Result<> Iterate();
  Result<> Hold();
  Bytes Of(const std::optional<base::SizeSpec>& size) const {
    return size ? size->Of(session_.device().memory) : Bytes{};
  }

  const Options& options_;
  Report& report_;
  Session& session_;
  std::uint64_t seed_;
  std::vector<Taken> taken_;
  Bytes total_;
  std::uint64_t iterations_ = 0;
};

Result<> Workload::RefuseTooMuchManaged() {
  if (options_.api != Api::kManaged) return {};
  const Bytes wanted = Of(options_.alloc) + Of(options_.jump);
  GPUMAN_ASSIGN(const Bytes free, session_.Free());
  if (wanted <= free) return {};
  return base::Fail(base::ErrorCode::kExhausted, base::FormatBytes(wanted) +
                                                     " of managed memory refused: the device has " +
                                                     base::FormatBytes(free) + " free");
}

Result<> Workload::Take(Bytes size) {
  const auto before = MonotonicNs();
  auto block = Allocate(session_, options_.api, size);
  const auto after = MonotonicNs();
  if (!block) {
    if (block.error().code == base::ErrorCode::kExhausted) {
      Json fields{{"requested", size.count}, {"total", total_.count}, {"before_ns", before}};
      if (const auto free = session_.Free()) fields["free"] = free->count;
      report_.Event("oom", fields);
    }
    return base::Fail(std::move(block).error());
  }
  total_ += (*block)->size();
  report_.Event("alloc", {{"bytes", (*block)->size().count},
                          {"total", total_.count},
                          {"before_ns", before},
                          {"after_ns", after}});
  taken_.push_back({std::move(*block), seed_ + taken_.size() + 1});
  if (!options_.verify) return {};
  GPUMAN_TRY(taken_.back().block->Fill(taken_.back().seed));
  return session_.Synchronize();
}

Result<> Workload::Climb() {
  const Bytes all = Of(options_.alloc);
  const Bytes step = options_.step ? std::max(Of(options_.step), Bytes{1}) : all;
  for (Bytes asked; asked < all;) {
    if (asked.count) std::this_thread::sleep_for(options_.interval);
    const Bytes now = std::min(step, all - asked);
    GPUMAN_TRY(Take(now));
    asked += now;
  }
  return {};
}

Result<> Workload::Iterate() {
  const auto start = SteadyClock::now();
  if (options_.kernel_time.count() > 0) GPUMAN_TRY(session_.Spin(options_.kernel_time));
  if (options_.verify) {
    for (auto& taken : taken_) {
      GPUMAN_TRY(taken.block->Add());
      ++taken.added;
    }
  }
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
  if (!options_.jump_all) GPUMAN_TRY(Climb());
  while (iterations_ < options_.iterations) GPUMAN_TRY(Iterate());
  if (!options_.until.empty())
    while (!std::filesystem::exists(options_.until, ignored)) GPUMAN_TRY(Iterate());
  GPUMAN_TRY(Hold());
  if (options_.jump_all || options_.jump) {
    GPUMAN_TRY(Take(options_.jump_all ? Of(options_.alloc) : Of(options_.jump)));
    GPUMAN_TRY(Hold());
  }
  return {};
}

Result<bool> Workload::Verify() {
  if (!options_.verify) return true;
  if (options_.flip_byte && !taken_.empty()) GPUMAN_TRY(taken_.front().block->FlipByte(*options_.flip_byte));
  Mismatches all;
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    GPUMAN_ASSIGN(const Mismatches found, taken_[i].block->Check(taken_[i].seed, taken_[i].added));
    if (found.words)
      report_.Event("mismatch", {{"block", i}, {"words", found.words}, {"first_word", found.first}});
    all.words += found.words;
  }
  report_.Event("verify", {{"bytes", total_.count}, {"blocks", taken_.size()}, {"wrong_words", all.words}});
  return all.words == 0;
}

int ExitOf(const base::Error& error) {
  return error.code == base::ErrorCode::kExhausted ? kOutOfMemory : kDriverError;
}

// Does the whole work; the session ends with it, so that the "done" event comes after all memory was freed.
int Work(const Options& options, Report& report, unsigned child, Json& summary) {
  const auto fail = [&](const base::Error& error) {
    Json fields{{"message", error.message}};
    if (!error.hint.empty()) fields["hint"] = error.hint;
    report.Event("error", fields);
    return ExitOf(error);
  };
  const auto cuda = driver::CudaDriver::Load();
  if (!cuda) return fail(cuda.error());
  const auto before = MonotonicNs();
  const auto session = Session::Open(*cuda, options.device, options.verify);
  if (!session) return fail(session.error());
  const auto free = (*session)->Free();
  report.Event("context", {{"device", options.device},
                           {"uuid", (*session)->device().uuid},
                           {"name", (*session)->device().name},
                           {"memory", (*session)->device().memory.count},
                           {"free", free ? Json(free->count) : Json()},
                           {"before_ns", before}});

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

int RunWorkload(const Options& options, Report& report, unsigned child) {
  report.Event("start", {{"api", ToString(options.api)}, {"child", child}});
  Json summary = Json::object();
  const int code = Work(options, report, child, summary);
  summary["exit"] = code;
  report.Event("done", summary);
  return code;
}

}  // namespace gpuman::load
