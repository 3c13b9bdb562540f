#include "rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "blocks.h"
#include "collective.h"
#include "exit_code.h"
#include "workload.h"

namespace gpuman::load {
namespace {

using base::Result;
using Json = nlohmann::ordered_json;
using Kind = Operation::Kind;
using SteadyClock = std::chrono::steady_clock;
namespace abi = driver::abi;

class Rank {
 public:
  Rank(const Options& options, Report& report, const Shared& shared, Session& session, unsigned rank)
      : options_(options),
        report_(report),
        board_(*shared.board),
        shared_(shared),
        session_(session),
        cuda_(session.cuda()),
        calls_(session.calls()),
        rank_(rank),
        plan_{options.pattern, options.ranks, options.buckets, options.opposite, options.graph, options.seed},
        blocks_(options, report, session, (std::uint64_t{rank} + 1) << 48),
        random_(options.seed * kMaxRanks + rank) {}

  Result<> Run();
  // False if a sum was wrong, or memory of the process is.
  Result<bool> Verify();
  std::uint64_t steps() const { return completed_; }
  base::Bytes total() const { return blocks_.total(); }

 private:
  // One step on its way: when its last kernel is done, and what it found.
  struct Pending {
    abi::CUevent done = nullptr;
    std::uint64_t* found = nullptr;  // on the host: words that differed so far, smallest index
    SteadyClock::time_point began{};
  };

  Result<> Connect();
  Result<> MakeBuckets();
  Result<> MakeStreams();
  Result<> Spoil();
  Result<> Steps();
  Result<> Grow(std::uint64_t step);
  Result<> Queue(std::uint64_t step);
  Result<> Complete(std::uint64_t step);
  Result<> CaptureStep();
  Result<> Call(std::uint64_t step, bool thinks);
  Result<> Do(const Operation& operation, std::chrono::nanoseconds work);
  Result<> Take(const Operation& operation);
  Result<> Follow(abi::CUstream waits, abi::CUstream on, abi::CUevent event);
  void Think();

  abi::CUdeviceptr BlockOf(unsigned block) const { return bucket_memory_ + block * kBlockBytes; }
  abi::CUdeviceptr SumOf(unsigned block) const { return BlockOf(options_.buckets + block); }
  Pending& PendingOf(std::uint64_t step) { return pending_[step % pending_.size()]; }

  const Options& options_;
  Report& report_;
  Board& board_;
  const Shared& shared_;
  Session& session_;
  const driver::CudaDriver& cuda_;
  const driver::CudaCalls& calls_;
  const unsigned rank_;
  const PlanOptions plan_;
  Blocks blocks_;
  std::mt19937_64 random_;
  std::unique_ptr<Collective> collective_;
  abi::CUdeviceptr bucket_memory_ = 0;  // the blocks, then the sums
  abi::CUdeviceptr counters_ = 0;       // the steps begun; words that differed; the smallest index of one
  std::array<abi::CUstream, kLanes> lanes_{};
  std::array<abi::CUevent, kLanes> events_{};
  std::array<bool, kLanes> used_{};  // lanes with work since they were joined; a capture may join no others
  std::vector<Pending> pending_;
  abi::CUgraphExec graph_ = nullptr;
  std::uint64_t completed_ = 0, wrong_words_ = 0;
  bool grown_ = false;
};

Result<> Rank::Run() {
  GPUMAN_TRY(blocks_.Climb());
  GPUMAN_TRY(MakeBuckets());
  GPUMAN_TRY(MakeStreams());
  GPUMAN_TRY(Connect());
  if (rank_ == 0) GPUMAN_TRY(Spoil());
  if (options_.graph) GPUMAN_TRY(CaptureStep());
  GPUMAN_TRY(Steps());
  if (options_.iterations != 0 || !options_.until.empty()) std::this_thread::sleep_for(options_.hold);
  return {};
}

Result<> Rank::MakeBuckets() {
  const std::size_t bytes = 2 * options_.buckets * kBlockBytes;
  GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls_.cuMemAlloc_v2, &bucket_memory_, bytes));
  for (unsigned block = 0; block < options_.buckets; ++block)
    GPUMAN_TRY(
        session_.Fill({BlockOf(block), kBlockWords, 1, kBlockBytes}, Collective::SeedOf(rank_, block)));
  const std::array<std::uint64_t, 3> counters{0, 0, UINT64_MAX};
  GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls_.cuMemAlloc_v2, &counters_, sizeof counters));
  GPUMAN_TRY(
      cuda_.Invoke("cuMemcpyHtoD", calls_.cuMemcpyHtoD_v2, counters_, counters.data(), sizeof counters));
  return session_.Synchronize();
}

Result<> Rank::MakeStreams() {
  constexpr unsigned kFlags = abi::CU_EVENT_BLOCKING_SYNC | abi::CU_EVENT_DISABLE_TIMING;
  lanes_[0] = session_.stream();
  for (unsigned lane = 1; lane < kLanes; ++lane)
    GPUMAN_TRY(cuda_.Invoke("cuStreamCreate", calls_.cuStreamCreate, &lanes_[lane],
                            static_cast<unsigned>(abi::CU_STREAM_NON_BLOCKING)));
  for (auto& event : events_) GPUMAN_TRY(cuda_.Invoke("cuEventCreate", calls_.cuEventCreate, &event, kFlags));
  pending_.resize(options_.ahead);
  void* found = nullptr;
  GPUMAN_TRY(cuda_.Invoke("cuMemHostAlloc", calls_.cuMemHostAlloc, &found,
                          pending_.size() * 2 * sizeof(std::uint64_t), 0u));
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    GPUMAN_TRY(cuda_.Invoke("cuEventCreate", calls_.cuEventCreate, &pending_[i].done, kFlags));
    pending_[i].found = static_cast<std::uint64_t*>(found) + 2 * i;
  }
  return {};
}

Result<> Rank::Connect() {
  GPUMAN_ASSIGN(const auto windows, OpenWindows(session_, options_, shared_, rank_));
  GPUMAN_ASSIGN(collective_, Collective::Open(session_, windows, rank_));
  report_.Event("connected", {{"rank", rank_}, {"ranks", options_.ranks}, {"window", kWindowBytes}});
  return {};
}

// Every rank must notice it in the first step.
Result<> Rank::Spoil() {
  if (!options_.flip_byte) return {};
  const auto address = BlockOf(0) + *options_.flip_byte % kBlockBytes;
  unsigned char byte = 0;
  GPUMAN_TRY(cuda_.Invoke("cuMemcpyDtoH", calls_.cuMemcpyDtoH_v2, &byte, address, std::size_t{1}));
  byte = static_cast<unsigned char>(~byte);
  return cuda_.Invoke("cuMemsetD8Async", calls_.cuMemsetD8Async, address, byte, std::size_t{1},
                      session_.stream());
}

Result<> Rank::Steps() {
  const auto end = SteadyClock::now() + options_.hold;
  const auto ends = [&] {
    std::error_code ignored;  // errors count as a missing file
    if (!options_.until.empty()) return std::filesystem::exists(options_.until, ignored);
    return options_.iterations == 0 && SteadyClock::now() >= end;
  };
  std::uint64_t queued = 0;
  for (;; ++queued) {
    if (options_.iterations != 0 && queued == options_.iterations) break;
    if (rank_ == 0 && ends()) board_.Stop();
    if (!board_.Begin(queued + 1)) break;
    GPUMAN_TRY(Grow(queued + 1));
    if (queued >= pending_.size()) GPUMAN_TRY(Complete(queued + 1 - pending_.size()));
    GPUMAN_TRY(Queue(queued + 1));
    board_.HasQueued(rank_, queued + 1);
  }
  while (completed_ < queued) GPUMAN_TRY(Complete(completed_ + 1));
  return {};
}

// The others have queued the step, and wait for this rank's part of it on their devices.
Result<> Rank::Grow(std::uint64_t step) {
  std::error_code ignored;  // errors count as a missing file
  if (!options_.grow || rank_ != options_.grow_rank || grown_ ||
      !std::filesystem::exists(options_.grow_when, ignored))
    return {};
  grown_ = true;
  board_.AwaitOthersQueued(rank_, options_.ranks, step);
  report_.Event("grows", {{"rank", rank_}, {"step", step}});
  return blocks_.Take(blocks_.Of(options_.grow));
}

Result<> Rank::Queue(std::uint64_t step) {
  auto& pending = PendingOf(step);
  pending.began = SteadyClock::now();
  if (graph_) {
    Think();
    GPUMAN_TRY(cuda_.Invoke("cuGraphLaunch", calls_.cuGraphLaunch, graph_, lanes_[0]));
  } else {
    GPUMAN_TRY(Call(step, true));
  }
  GPUMAN_TRY(blocks_.Add());
  GPUMAN_TRY(cuda_.Invoke("cuMemcpyDtoHAsync", calls_.cuMemcpyDtoHAsync_v2, pending.found,
                          counters_ + sizeof(std::uint64_t), 2 * sizeof(std::uint64_t), lanes_[0]));
  return cuda_.Invoke("cuEventRecord", calls_.cuEventRecord, pending.done, lanes_[0]);
}

Result<> Rank::Complete(std::uint64_t step) {
  const auto& pending = PendingOf(step);
  GPUMAN_TRY(cuda_.Invoke("cuEventSynchronize", calls_.cuEventSynchronize, pending.done));
  completed_ = step;
  const std::chrono::duration<double> took = SteadyClock::now() - pending.began;
  Json fields{{"rank", rank_}, {"number", step}, {"seconds", took.count()}};
  if (options_.verify) {
    const auto wrong = pending.found[0] - wrong_words_;
    wrong_words_ = pending.found[0];
    fields["wrong_words"] = wrong;
    if (wrong != 0)
      report_.Event("mismatch",
                    {{"rank", rank_}, {"step", step}, {"words", wrong}, {"first_word", pending.found[1]}});
  }
  report_.Event("step", fields);
  return {};
}

Result<> Rank::CaptureStep() {
  GPUMAN_TRY(cuda_.Invoke("cuStreamBeginCapture", calls_.cuStreamBeginCapture_v2, lanes_[0],
                          abi::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  GPUMAN_TRY(Call(1, false));
  abi::CUgraph graph = nullptr;
  GPUMAN_TRY(cuda_.Invoke("cuStreamEndCapture", calls_.cuStreamEndCapture, lanes_[0], &graph));
  GPUMAN_TRY(cuda_.Invoke("cuGraphInstantiate", calls_.cuGraphInstantiateWithFlags, &graph_, graph,
                          abi::cuuint64_t{0}));
  return cuda_.Invoke("cuGraphDestroy", calls_.cuGraphDestroy, graph);
}

// Before one of the step's messages, drawn at random, the program stops to think.
Result<> Rank::Call(std::uint64_t step, bool thinks) {
  GPUMAN_TRY(session_.Add({counters_, 1, 1, sizeof(std::uint64_t)}));
  const auto operations = StepOf(plan_, rank_, step);
  const auto has_ranks = [](const Operation& operation) { return operation.ranks != 0; };
  const auto is_work = [](const Operation& operation) { return operation.kind == Kind::kWork; };
  const auto messages = std::count_if(operations.begin(), operations.end(), has_ranks);
  const auto works = std::count_if(operations.begin(), operations.end(), is_work);
  const std::chrono::nanoseconds work =
      std::chrono::nanoseconds(options_.work) / std::max<std::ptrdiff_t>(works, 1);
  auto before =
      messages == 0 || !thinks ? -1 : static_cast<std::ptrdiff_t>(random_() % std::uint64_t(messages));
  for (const auto& operation : operations) {
    if (has_ranks(operation) && before-- == 0) Think();
    GPUMAN_TRY(Do(operation, work));
  }
  return {};
}

void Rank::Think() {
  if (options_.think.count() == 0) return;
  const auto longest = static_cast<std::uint64_t>(options_.think.count());
  std::this_thread::sleep_for(base::Millis(random_() % (longest + 1)));
}

Result<> Rank::Do(const Operation& operation, std::chrono::nanoseconds work) {
  const auto lane = operation.lane;
  if (lane != 0) {
    GPUMAN_TRY(Follow(lanes_[lane], lanes_[0], events_[0]));
    used_[lane] = true;
  }
  const auto block = BlockOf(operation.block);
  switch (operation.kind) {
    case Kind::kWork:
      return work.count() > 0 ? session_.Spin(work) : Result<>();
    case Kind::kRaise:
      return session_.Add({block, kBlockWords, 1, kBlockBytes});
    case Kind::kReduce:
      GPUMAN_TRY(collective_->Send(lanes_[lane], lane, operation.ranks, block));
      return Take(operation);
    case Kind::kSend:
      return collective_->Send(lanes_[lane], lane, operation.ranks,
                               operation.passes_on ? SumOf(operation.block) : block);
    case Kind::kTake:
      return Take(operation);
    case Kind::kJoin:
      for (unsigned other = 1; other < kLanes; ++other)
        if (std::exchange(used_[other], false)) GPUMAN_TRY(Follow(lanes_[0], lanes_[other], events_[other]));
      return {};
  }
  return {};
}

Result<> Rank::Take(const Operation& operation) {
  const auto stream = lanes_[operation.lane];
  const auto sum = SumOf(operation.block);
  GPUMAN_TRY(collective_->Take(stream, operation.lane, operation.ranks, BlockOf(operation.block), sum));
  if (!options_.verify) return {};
  return collective_->CheckSum(stream, sum, operation.sum, operation.block, counters_,
                               counters_ + sizeof(std::uint64_t));
}

Result<> Rank::Follow(abi::CUstream waits, abi::CUstream on, abi::CUevent event) {
  GPUMAN_TRY(cuda_.Invoke("cuEventRecord", calls_.cuEventRecord, event, on));
  return cuda_.Invoke("cuStreamWaitEvent", calls_.cuStreamWaitEvent, waits, event, 0u);
}

Result<bool> Rank::Verify() {
  GPUMAN_ASSIGN(const bool right, blocks_.Verify());
  return right && wrong_words_ == 0;
}

Result<int> DeviceOf(const driver::CudaDriver& cuda, const Options& options, unsigned rank) {
  GPUMAN_TRY(cuda.Init());
  GPUMAN_ASSIGN(const auto devices, cuda.Devices());
  if (devices.empty()) return base::Fail(base::ErrorCode::kNotFound, "the driver shows no device");
  if (options.threads && rank >= devices.size())
    return base::Fail(base::ErrorCode::kNotFound,
                      fmt::format("rank {} has no device: the driver shows {}", rank, devices.size()));
  return static_cast<int>(rank % devices.size());
}

// The session ends with it, when no kernel of another rank uses its window any more.
int Work(const Options& options, Report& report, const Shared& shared, unsigned number, Json& summary) {
  const auto cuda = driver::CudaDriver::Load();
  if (!cuda) return report.Failed(cuda.error());
  const auto before = MonotonicNs();
  const auto device = DeviceOf(*cuda, options, number);
  if (!device) return report.Failed(device.error());
  auto session = Session::Open(*cuda, *device, options.verify);
  if (!session) return report.Failed(session.error());
  ReportContext(report, **session, *device, before);

  auto rank = std::make_unique<Rank>(options, report, shared, **session, number);
  const auto right = rank->Run().and_then([&] { return rank->Verify(); });
  if (!right) {
    // Their end would wait for kernels that wait for other ranks, for ever.
    (void)rank.release();
    (void)session->release();
    return report.Failed(right.error());
  }
  summary = {{"rank", number}, {"total", rank->total().count}, {"steps", rank->steps()}};
  shared.board->AwaitAll(options.ranks);
  return *right ? kDone : kDataWrong;
}

}  // namespace

int RunRank(const Options& options, Report& report, const Shared& shared, unsigned rank) {
  report.Event("start", {{"rank", rank},
                         {"ranks", options.ranks},
                         {"pattern", ToString(options.pattern)},
                         {"peer", ToString(options.peer)}});
  Json summary = Json::object();
  const int code = Work(options, report, shared, rank, summary);
  summary["exit"] = code;
  report.Event("done", summary);
  return code;
}

}  // namespace gpuman::load
