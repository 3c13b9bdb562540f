#include "trace/reading.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/test_temp_dir.h"
#include "trace/test_trace.h"

namespace gpuman::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TraceBytes Whole() {
  TraceBytes trace;
  trace.Device(0, 1)
      .Module(0x1000, 0x2000, "/lib/libmodel.so")
      .Function("/home/ann/train.py", "Net.forward")
      .Stack({0x1010, 0x1020}, {{0, 31}, {0, -1}})
      .Allocated(1500, 0xa0, 4096, 0, 0, 4096)
      .Freed(1600, 0xa0)
      .Refused(1700, 1 << 20, 0);
  return trace;
}

TEST(ParseTrace, ReadsWhatAShimWrites) {
  const auto trace = ParseTrace(Whole().bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->pid, 17u);
  EXPECT_THAT(trace->gpus, ElementsAre("GPU-00000000-0000-0000-0000-000000000001"));
  ASSERT_EQ(trace->modules.size(), 1u);
  EXPECT_EQ(trace->modules[0].path, "/lib/libmodel.so");
  EXPECT_EQ(trace->modules[0].build_id, "id");
  EXPECT_EQ(trace->functions[0].name, "Net.forward");
  EXPECT_THAT(trace->stacks[0].native, ElementsAre(0x1010u, 0x1020u));
  EXPECT_EQ(trace->stacks[0].python[0].line, 31);
  EXPECT_EQ(trace->stacks[0].python[1].line, 0);
  ASSERT_EQ(trace->events.size(), 3u);
  EXPECT_NEAR(trace->events[0].weight, 1 / (1 - std::exp(-1.0)), 1e-9);
  EXPECT_EQ(trace->events[1].kind, TraceEvent::Kind::kFreed);
  EXPECT_EQ(trace->events[2].kind, TraceEvent::Kind::kRefused);
  EXPECT_EQ(trace->end, TraceEnd::kWhole);
  EXPECT_EQ(trace->WallOf(2'000'001'000).time_since_epoch(), std::chrono::milliseconds(1'800'000'002'000));
}

TEST(ParseTrace, ReadsWhatAKilledProcessLeft) {
  const std::string bytes = Whole().bytes;
  std::size_t torn = 0;
  for (std::size_t size = 64; size < bytes.size(); ++size) {
    const auto trace = ParseTrace(std::string_view(bytes).substr(0, size));
    ASSERT_TRUE(trace) << size;
    torn += trace->end == TraceEnd::kTorn ? 1U : 0U;
  }
  EXPECT_EQ(torn, bytes.size() - 64 - 7);  // 7 records begin there
}

TEST(ParseTrace, SaysThatATraceIsFullAndReadsNothingBehindThat) {
  auto bytes = Whole();
  bytes.Full(1800).Freed(1900, 1);
  const auto trace = ParseTrace(bytes.bytes);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->end, TraceEnd::kFull);
  EXPECT_EQ(trace->events.size(), 3u);
}

TEST(ParseTrace, PassesOverRecordsOfANewerShim) {
  auto bytes = Whole();
  bytes.Record(static_cast<ledger::wire::RecordKind>(77), std::uint64_t{1}).Freed(1900, 1);
  const auto trace = ParseTrace(bytes.bytes);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.size(), 4u);
}

TEST(ParseTrace, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(ParseTrace(""));
  EXPECT_FALSE(ParseTrace(std::string(64, 'x')));
  const auto refused = [](const TraceBytes& bytes) { return !ParseTrace(bytes.bytes); };
  EXPECT_TRUE(refused(Whole().Stack({}, {{1, 1}})));          // a function that there is not
  EXPECT_TRUE(refused(Whole().Allocated(1500, 1, 1, 1)));     // a stack that there is not
  EXPECT_TRUE(refused(Whole().Allocated(1500, 1, 1, 0, 5)));  // a device that there is not
  EXPECT_TRUE(refused(Whole().Allocated(1500, 1, 0, 0)));
  EXPECT_TRUE(refused(Whole().Allocated(1500, 1, 1, 0, 0, 0)));
  EXPECT_TRUE(refused(Whole().Allocated(1500, 1, UINT64_MAX, 0)));
  EXPECT_TRUE(refused(Whole().Allocated(1500, 1, 1, 0, 0, UINT64_MAX)));
  EXPECT_TRUE(refused(Whole().Allocated(999, 1, 1, 0)));              // before its begin
  EXPECT_TRUE(refused(Whole().Unseen(-1).Allocated(1500, 1, 1, 0)));  // less than itself
  EXPECT_TRUE(refused(Whole().Module(2, 2, "/lib/x")));
  EXPECT_TRUE(refused(Whole().Module(1, 2, std::string("/lib/\0x", 7))));
  EXPECT_TRUE(refused(Whole().Record(ledger::wire::RecordKind::kStack, ledger::wire::TraceStack{1000, 0})));
  EXPECT_TRUE(
      refused(Whole().Record(ledger::wire::RecordKind::kCode, ledger::wire::TracePythonFunction{9, 9, 0})));
}

TEST(ParseTrace, MakesTextOfNames) {
  const auto trace = ParseTrace(TraceBytes().Function("a\xff.py", "f\x80").bytes);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->functions[0].file, "a?.py");
  EXPECT_EQ(trace->functions[0].name, "f?");
}

TEST(ParseTrace, OutlivesAnyDamage) {
  std::mt19937_64 random(24);
  const std::string whole = Whole().bytes;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto trace = ParseTrace(bytes);
    if (!trace) continue;
    for (const TraceEvent& event : trace->events) {
      if (event.kind != TraceEvent::Kind::kAllocated && event.kind != TraceEvent::Kind::kRefused) continue;
      ASSERT_LT(event.gpu, trace->gpus.size());
      ASSERT_LT(event.stack, trace->stacks.size());
    }
  }
}

TEST(ReadTraces, ReadsFilesAndPassesOverWhatIsNone) {
  const base::TempDir dir;
  std::ofstream(dir.path() / "0.trace") << Whole().bytes;
  ASSERT_EQ(::mkfifo((dir.path() / "1.trace").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("/etc/passwd", (dir.path() / "2.trace").c_str()), 0);
  std::ofstream(dir.path() / "3.trace") << "nonsense";
  std::ofstream(dir.path() / "4.trace") << Whole().bytes;
  const auto traces = ReadTraces(dir.path());
  ASSERT_TRUE(traces) << traces.error().message;
  ASSERT_EQ(traces->processes.size(), 2u);
  EXPECT_EQ(traces->processes[1].number, 4u);
  EXPECT_THAT(traces->notes, ElementsAre(HasSubstr("1.trace could not be read"), HasSubstr("2.trace"),
                                         HasSubstr("3.trace")));
  EXPECT_EQ(ReadTraces(dir.path() / "none").error().code, base::ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::trace
