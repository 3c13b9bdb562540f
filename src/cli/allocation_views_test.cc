#include "cli/allocation_views.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "trace/test_trace.h"

namespace gpuman::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMiB = 1 << 20;
const trace::NameFrame kNoNames = [](const trace::MappedBinary&, std::uint64_t, trace::Frame&) {};

JobAllocationTraces Traced(const trace::TraceBytes& bytes) {
  JobAllocationTraces job{7, "train", {}, {}};
  job.traces.processes.push_back(*trace::ParseTrace(bytes.bytes));
  job.gpus = trace::Replay(job.traces.processes);
  return job;
}

trace::TraceBytes TwelveLines() {
  trace::TraceBytes bytes;
  bytes.Device(0, 1).Function("train.py", "main");
  for (int line = 1; line <= 12; ++line) {
    const auto number = static_cast<std::uint64_t>(line);
    bytes.Stack({}, {{0, line}});
    bytes.Allocated(1000 + number, number, number * kMiB, static_cast<std::uint32_t>(line - 1));
  }
  return bytes;
}

std::string Render(const JobAllocationTraces& job) {
  return RenderAllocations(job, kNoNames, [](const std::string&) { return "GPU 0"; }, {});
}

TEST(Allocations, AreShownByTheTenPlacesThatHeldMost) {
  const std::string text = Render(Traced(TwelveLines()));
  EXPECT_THAT(text, HasSubstr("job 7 'train'"));
  EXPECT_THAT(text, HasSubstr(": 78MiB\n"));
  EXPECT_THAT(text, HasSubstr("      12MiB   15 %  train.py:12 in main\n"));
  EXPECT_THAT(text, HasSubstr("train.py:3 in main"));
  EXPECT_THAT(text, Not(HasSubstr("train.py:2 in main")));
  EXPECT_THAT(text, HasSubstr("       3MiB         at 2 more places"));
  EXPECT_THAT(text, Not(HasSubstr("refusal")));
}

TEST(Allocations, AreShownAtTheRefusalToo) {
  auto bytes = TwelveLines();
  bytes.Freed(1020, 12).Refused(1030, 512 * kMiB, 4);
  const std::string text = Render(Traced(bytes));
  EXPECT_THAT(text, HasSubstr("At the refusal of 512MiB on GPU 0"));
  EXPECT_THAT(text, HasSubstr(": 66MiB were held; it was for\n  train.py:5 in main\n"));
  bytes.Full(1040);
  EXPECT_THAT(Render(Traced(bytes)), HasSubstr("the trace of process 17 is full"));
}

TEST(Allocations, AreToldWhereThereAreNone) {
  EXPECT_THAT(Render(Traced(trace::TraceBytes())), HasSubstr("no allocation was traced"));
}

TEST(Allocations, HideNoCharactersThatChangeTheTerminal) {
  trace::TraceBytes bytes;
  bytes.Device(0, 1).Function("\x1b[2J.py", "f").Stack({}, {{0, 1}}).Allocated(1010, 1, kMiB, 0);
  EXPECT_THAT(Render(Traced(bytes)), Not(HasSubstr("\x1b")));
}

TEST(Allocations, HaveWholeStacksInJson) {
  auto bytes = TwelveLines();
  bytes.Refused(1030, 512 * kMiB, 4);
  const api::Json json = AllocationsJson(Traced(bytes), kNoNames);
  EXPECT_EQ(json["gpus"].size(), 1u);
  const auto& peak = json["gpus"][0]["peak"];
  EXPECT_EQ(peak["bytes"], 78 * kMiB);
  EXPECT_EQ(peak["places"].size(), 10u);
  EXPECT_EQ(peak["places"][0]["place"], "train.py:12 in main");
  EXPECT_EQ(peak["places"][0]["stacks"][0]["frames"][0]["line"], 12);
  EXPECT_EQ(json["gpus"][0]["refusal"]["asked"], 512 * kMiB);
  EXPECT_EQ(json["gpus"][0]["refusal"]["place"], "train.py:5 in main");
  EXPECT_TRUE(AllocationsJson(Traced(TwelveLines()), kNoNames)["gpus"][0]["refusal"].is_null());
}

}  // namespace
}  // namespace gpuman::cli
