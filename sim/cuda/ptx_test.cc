// The PTX interpreter alone: runs text and checks the effects on memory of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sim/cuda/ptx_program.h"
#include "sim/cuda/ptx_run.h"

namespace gpuman::sim::cuda::ptx {
namespace {

using testing::Each;
using testing::HasSubstr;

class OneBuffer : public Memory {
 public:
  explicit OneBuffer(std::size_t words) : words_(words) {}
  bool Find(std::uint64_t address, Range& range) override {
    range = {Begin(), Begin() + words_.size() * 4, writable};
    return address >= range.begin && address < range.end;
  }
  std::uint64_t Begin() { return reinterpret_cast<std::uint64_t>(words_.data()); }
  std::vector<std::uint32_t>& words() { return words_; }
  bool writable = true;

 private:
  std::vector<std::uint32_t> words_;
};

tl::expected<Program, std::string> Load(const std::string& body,
                                        const std::string& parameters = ".param .u64 p") {
  auto text = ParseText(".version 8.0\n.target sm_50\n.address_size 64\n.visible .entry k(" + parameters +
                        ")\n{\n" + body + "\n}\n");
  if (!text) return tl::unexpected(text.error());
  return Decode(std::move(*text));
}

template <typename... Arguments>
RunResult RunKernel(const Program& program, Memory& memory, Dimensions grid, Dimensions block,
                    Arguments... arguments) {
  std::vector<std::uint8_t> bytes;
  const auto add = [&](auto value) {
    while (bytes.size() % sizeof value != 0) bytes.push_back(0);
    bytes.resize(bytes.size() + sizeof value);
    std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
  };
  (add(arguments), ...);
  return ptx::Run(program.kernels.front(), std::vector<std::uint64_t>(program.globals.size()), grid, block,
                  bytes, memory);
}

constexpr const char* kFill = R"(
  .reg .u64 %rd<6>; .reg .u32 %r<8>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [value];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.u32 %r3, %r3, %r4, %r5;
  mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;
LOOP:
  setp.ge.u32 %p1, %r3, %r1; @%p1 bra DONE;
  mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2;
  add.u32 %r7, %r2, %r3; st.global.u32 [%rd3], %r7;
  add.u32 %r3, %r3, %r6; bra LOOP;
DONE: ret;)";

TEST(Ptx, FillsWithAGridStrideWhateverTheShapeOfTheGrid) {
  const auto program = Load(kFill, ".param .u64 p, .param .u32 n, .param .u32 value");
  ASSERT_TRUE(program) << program.error();
  for (const auto& [grid, block] : {std::pair{1u, 1u}, {3u, 32u}, {7u, 33u}, {2u, 1024u}, {1u, 100u}}) {
    OneBuffer memory(5001);
    const RunResult result =
        RunKernel(*program, memory, {grid}, {block}, memory.Begin(), std::uint32_t{5000}, std::uint32_t{17});
    ASSERT_EQ(result.fault, Fault::kNone);
    std::vector<std::uint32_t> expected(5000);
    std::iota(expected.begin(), expected.end(), 17u);
    expected.push_back(0);  // the next one is untouched
    ASSERT_EQ(memory.words(), expected) << grid << " x " << block;
  }
}

TEST(Ptx, CountsMismatchesWithAnAtomicAddUnderAPredicate) {
  const auto program = Load(R"(
    .reg .u64 %rd<4>; .reg .u32 %r<4>; .reg .pred %q;
    ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r2, [%rd3+4]; setp.ne.u32 %q, %r2, 7;
    @%q atom.global.add.u32 %r3, [%rd1], 1; @!%q red.global.add.u32 [%rd1], 256; ret;)");
  ASSERT_TRUE(program) << program.error();
  OneBuffer memory(101);
  std::fill(memory.words().begin() + 1, memory.words().end(), 7u);
  memory.words()[5] = memory.words()[77] = memory.words()[100] = 8;
  ASSERT_EQ(RunKernel(*program, memory, {1}, {100}, memory.Begin()).fault, Fault::kNone);
  EXPECT_EQ(memory.words()[0], 3u + 97u * 256u);
}

// Each thread counts down from its own number: the collatz steps of tid.
TEST(Ptx, ThreadsOfAWarpMayTakeDifferentWays) {
  const auto program = Load(R"(
    .reg .u64 %rd<4>; .reg .u32 %r<6>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    add.u32 %r2, %r1, 1; mov.u32 %r3, 0;
  AGAIN:
    setp.eq.u32 %p1, %r2, 1; @%p1 bra OUT;
    add.u32 %r3, %r3, 1; and.b32 %r4, %r2, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra EVEN;
    mad.lo.u32 %r2, %r2, 3, 1; bra AGAIN;
  EVEN: shr.u32 %r2, %r2, 1; bra AGAIN;
  OUT: st.global.u32 [%rd3], %r3; ret;)");
  ASSERT_TRUE(program) << program.error();
  OneBuffer memory(64);
  ASSERT_EQ(RunKernel(*program, memory, {1}, {64}, memory.Begin()).fault, Fault::kNone);
  for (unsigned i = 0; i < 64; ++i) {
    unsigned steps = 0;
    for (unsigned n = i + 1; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++steps;
    EXPECT_EQ(memory.words()[i], steps) << i;
  }
}

TEST(Ptx, SignedNarrowAndFloatingTypesConvertAsOnTheDevice) {
  const auto program = Load(R"(
    .reg .u64 %rd<4>; .reg .s32 %r<6>; .reg .f32 %f<4>; .reg .f64 %d<3>; .reg .s64 %l<3>;
    ld.param.u64 %rd1, [p]; ld.global.s8 %r1, [%rd1]; st.global.s32 [%rd1+4], %r1;
    cvt.s64.s32 %l1, %r1; shr.s64 %l1, %l1, 40; cvt.u32.u64 %r2, %l1; st.global.u32 [%rd1+8], %r2;
    div.s32 %r3, %r1, 2; st.global.s32 [%rd1+12], %r3;
    cvt.rn.f32.s32 %f1, %r1; mul.f32 %f2, %f1, 0f3F000000; fma.rn.f32 %f2, %f2, 2.0, 0.25; st.global.f32 [%rd1+16], %f2;
    cvt.f64.f32 %d1, %f2; cvt.rzi.s32.f64 %r4, %d1; st.global.s32 [%rd1+20], %r4;
    rem.s32 %r5, %r1, 2; st.global.v2.u32 [%rd1+24], {%r5, %r4}; ret;)");
  ASSERT_TRUE(program) << program.error();
  OneBuffer memory(8);
  memory.words()[0] = 0xFD;  // -3
  ASSERT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin()).fault, Fault::kNone);
  const auto at = [&](unsigned i) { return static_cast<std::int32_t>(memory.words()[i]); };
  EXPECT_EQ(at(1), -3);
  EXPECT_EQ(at(2), -1);
  EXPECT_EQ(at(3), -1);
  float f = 0;
  std::memcpy(&f, &memory.words()[4], 4);
  EXPECT_EQ(f, -2.75f);
  EXPECT_EQ(at(5), -2);
  EXPECT_EQ(at(6), -1);
  EXPECT_EQ(at(7), -2);
}

constexpr const char* kStore = R"(.reg .u64 %rd<2>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [p]; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; ret;)";

TEST(Ptx, AnAccessOutsideMappedMemoryIsAFault) {
  const auto program = Load(kStore);
  ASSERT_TRUE(program);
  OneBuffer memory(4);
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin() + 16).fault, Fault::kIllegalAddress);
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, std::uint64_t{0}).fault, Fault::kIllegalAddress);
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, ~std::uint64_t{0}).fault, Fault::kIllegalAddress);
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin() + 1).fault, Fault::kMisalignedAddress);
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin() + 14).fault, Fault::kIllegalAddress);
  memory.writable = false;
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin()).fault, Fault::kIllegalAddress);
  EXPECT_THAT(memory.words(), Each(0u));
}

// Each thread reads the word at p + step * thread and writes the one at q + step * thread, in one warp.
constexpr const char* kCopy = R"(
  .reg .u64 %rd<4>; .reg .u32 %r<4>;
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u32 %r1, [step];
  mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, %r1;
  add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
  ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd2], %r3; ret;)";

TEST(Ptx, ThreadsReadAndWriteSideBySideApartOrTheSameWord) {
  const auto program = Load(kCopy, ".param .u64 p, .param .u64 q, .param .u32 step");
  ASSERT_TRUE(program) << program.error();
  constexpr unsigned kWords = 200, kTo = 100;
  for (const unsigned threads : {32u, 7u}) {
    for (const unsigned step : {0u, 4u, 8u, 12u}) {
      OneBuffer memory(kWords);
      std::iota(memory.words().begin(), memory.words().end(), 1u);
      auto expected = memory.words();
      for (unsigned i = 0; i < threads; ++i) expected[kTo + i * step / 4] = expected[i * step / 4];
      const auto run = [&](std::uint64_t from, std::uint64_t to) {
        return RunKernel(*program, memory, {1}, {threads}, from, to, std::uint32_t{step}).fault;
      };
      EXPECT_EQ(run(memory.Begin(), memory.Begin() + 4 * kTo), Fault::kNone);
      EXPECT_EQ(memory.words(), expected) << threads << " threads, a step of " << step;
      EXPECT_EQ(run(memory.Begin() + 2, memory.Begin() + 4 * kTo), Fault::kMisalignedAddress);
      const std::uint64_t end = memory.Begin() + 4 * kWords;
      EXPECT_EQ(run(end - step * threads, memory.Begin()), step == 0 ? Fault::kIllegalAddress : Fault::kNone);
      EXPECT_EQ(run(end - step * (threads - 1), memory.Begin()), Fault::kIllegalAddress);
      EXPECT_EQ(run(memory.Begin(), end - step * (threads - 1)), Fault::kIllegalAddress);
    }
  }
}

// The words 0, 1, ... with a hole in the middle, where no memory is; the two parts are ranges of their own.
class TwoParts : public Memory {
 public:
  static constexpr int kWords = 1024, kHole = 500, kEndOfHole = 520;
  TwoParts() : words_(kWords) { std::iota(words_.begin(), words_.end(), 0u); }
  bool Find(std::uint64_t address, Range& range) override {
    range = address < At(kHole) ? Range{At(0), At(kHole), true} : Range{At(kEndOfHole), At(kWords), writable};
    return address >= range.begin && address < range.end;
  }
  std::uint64_t At(int word) { return reinterpret_cast<std::uint64_t>(words_.data() + word); }
  std::vector<std::uint32_t>& words() { return words_; }
  bool writable = true;  // the second part

 private:
  std::vector<std::uint32_t> words_;
};

// Thread t adds 1000 to two words from p + t * step on. The warp has seen both parts before.
constexpr const char* kAddInSteps = R"(
  .reg .u64 %rd<4>; .reg .u32 %r<3>;
  ld.param.u64 %rd1, [one]; ld.global.u32 %r0, [%rd1]; ld.param.u64 %rd1, [other]; ld.global.u32 %r0, [%rd1];
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [step];
  mov.u32 %r2, %tid.x; cvt.u64.u32 %rd3, %r2; mul.lo.s64 %rd2, %rd2, %rd3; add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r0, [%rd1]; ld.global.u32 %r1, [%rd1+4]; add.u32 %r0, %r0, 1000; add.u32 %r1, %r1, 1000;
  st.global.u32 [%rd1], %r0; st.global.u32 [%rd1+4], %r1; ret;)";

class PtxSteps : public testing::Test {
 protected:
  RunResult Run(std::uint64_t from, std::int64_t step, unsigned threads = 32) {
    return RunKernel(*program_, memory, {1}, {threads}, from, step, memory.At(0),
                     memory.At(TwoParts::kEndOfHole));
  }
  // The word at which the first of 32 threads fails.
  std::int64_t FaultOf(int from, int step) {
    const RunResult result = Run(memory.At(from), step);
    EXPECT_EQ(result.fault, Fault::kIllegalAddress);
    return static_cast<std::int64_t>(result.fault_address - memory.At(0)) / 4;
  }
  TwoParts memory;

 private:
  tl::expected<Program, std::string> program_ =
      Load(kAddInSteps, ".param .u64 p, .param .u64 step, .param .u64 one, .param .u64 other");
};

TEST_F(PtxSteps, TheAddressesOfAWarpMayGoUpOrDownByAnyStep) {
  for (const unsigned threads : {32u, 31u}) {
    for (const int step : {8, 16, 24, 56, -8, -16, -56}) {
      memory = {};
      auto expected = memory.words();
      const int first = step > 0 ? 540 : 990;
      for (unsigned t = 0; t < threads; ++t) {
        const int at = first + static_cast<int>(t) * step / 4;
        const auto word = static_cast<std::size_t>(at);
        expected[word] += 1000;
        expected[word + 1] += 1000;
      }
      const RunResult result = Run(memory.At(first), step, threads);
      EXPECT_EQ(result.fault, Fault::kNone) << result.fault_address - memory.At(0);
      EXPECT_EQ(memory.words(), expected) << threads << " threads, a step of " << step;
    }
  }
}

TEST_F(PtxSteps, AStepOutOfTheMemoryIsAFaultOfTheThreadThatTakesIt) {
  EXPECT_EQ(FaultOf(470, 8), 500) << "up, into the hole and out again";
  EXPECT_EQ(FaultOf(550, -8), 518) << "down, into the hole and out again";
  EXPECT_EQ(FaultOf(437, 8), 500) << "the second word of the last thread";
  EXPECT_EQ(FaultOf(1000, 8), 1024) << "past the end";
  EXPECT_EQ(FaultOf(40, -8), -2) << "down, past the start";
}

TEST_F(PtxSteps, AHoleThatNoThreadFallsIntoIsNone) {
  EXPECT_EQ(Run(memory.At(256), 96).fault, Fault::kNone) << "the words 496 and 520 are steps";
  EXPECT_EQ(memory.words()[496], 1496u);
  EXPECT_EQ(memory.words()[520], 1520u);
}

// 31 steps are -16 modulo 2^64: the last address is beside the first.
TEST_F(PtxSteps, AStepThatGoesRoundAllAddressesIsAFault) {
  constexpr std::int64_t kStep = 595'056'260'442'243'600;
  const RunResult result = Run(memory.At(600), kStep);
  EXPECT_EQ(result.fault, Fault::kIllegalAddress);
  EXPECT_EQ(result.fault_address, memory.At(600) + static_cast<std::uint64_t>(kStep));
}

TEST_F(PtxSteps, MisalignedOnesAndThoseThatMayNotBeWrittenAreRefused) {
  const RunResult odd = Run(memory.At(600), 10);
  EXPECT_EQ(odd.fault, Fault::kMisalignedAddress);
  EXPECT_EQ(odd.fault_address, memory.At(600) + 10);
  EXPECT_EQ(Run(memory.At(600) + 2, 16).fault, Fault::kMisalignedAddress);
  memory.writable = false;
  const RunResult unwritable = Run(memory.At(990), -16);
  EXPECT_EQ(unwritable.fault, Fault::kIllegalAddress);
  EXPECT_EQ(unwritable.fault_address, memory.At(990));
}

TEST(Ptx, WaitingByTheTimerTakesItsTimeOnceForTheWholeGrid) {
  const auto program = Load(R"(.reg .u64 %rd<4>; .reg .pred %p;
    ld.param.u64 %rd1, [p]; mov.u64 %rd2, %globaltimer;
    AGAIN: mov.u64 %rd3, %globaltimer; sub.u64 %rd3, %rd3, %rd2; setp.lt.u64 %p, %rd3, %rd1; @%p bra AGAIN; ret;)");
  ASSERT_TRUE(program) << program.error();
  OneBuffer memory(1);
  const RunResult result = RunKernel(*program, memory, {4}, {64}, std::uint64_t{5'000'000'000});
  EXPECT_EQ(result.fault, Fault::kNone);
  EXPECT_GE(result.waited_ns, 5'000'000'000u);
  EXPECT_LE(result.waited_ns, 5'100'000'000u);
}

// Writes a word when the kernel has paused so often; or gives the kernel up.
class Awaited : public OneBuffer {
 public:
  using OneBuffer::OneBuffer;
  bool Pause(std::uint64_t nanoseconds, unsigned polls) override {
    asked_ns = nanoseconds;
    most_polls = std::max(most_polls, polls);
    if (++pauses == writes_after) words()[0] = 5;
    return pauses < gives_up_after;
  }
  unsigned pauses = 0, writes_after = 100, gives_up_after = 1000, most_polls = 0;
  std::uint64_t asked_ns = 0;
};

std::string WaitsFor5(const std::string& load, const std::string& pause) {
  return ".reg .u64 %rd<2>; .reg .u32 %r<2>; .reg .pred %p<1>; ld.param.u64 %rd1, [p];\n"
         "AGAIN: " +
         load + ".u32 %r1, [%rd1]; setp.eq.u32 %p0, %r1, 5; @%p0 bra OUT; " + pause +
         " bra AGAIN;\nOUT: st.global.u32 [%rd1+4], 1; ret;";
}

TEST(Ptx, AKernelWaitsForAWordThatSomebodyElseWrites) {
  for (const char* load : {"ld.volatile.global", "ld.relaxed.sys.global", "ld.acquire.sys.global"}) {
    for (const char* pause : {"nanosleep.u32 700;", ""}) {
      const auto program = Load(WaitsFor5(load, pause));
      ASSERT_TRUE(program) << program.error();
      Awaited memory(2);
      const RunResult result = RunKernel(*program, memory, {1}, {1}, memory.Begin());
      EXPECT_EQ(result.fault, Fault::kNone);
      EXPECT_FALSE(result.given_up);
      EXPECT_EQ(result.waited_ns, 0u) << "it has waited in real time";
      EXPECT_EQ(memory.pauses, 100u) << load << pause;
      EXPECT_GE(memory.most_polls, 99u) << load << pause;
      EXPECT_EQ(memory.asked_ns, *pause != 0 ? 700u : 0u);
      EXPECT_EQ(memory.words()[1], 1u);
    }
  }
}

TEST(Ptx, AWaitingKernelCanBeGivenUp) {
  const auto program = Load(WaitsFor5("ld.acquire.sys.global", ""));
  ASSERT_TRUE(program) << program.error();
  Awaited memory(2);
  memory.gives_up_after = 3;
  const RunResult result = RunKernel(*program, memory, {2}, {64}, memory.Begin());
  EXPECT_TRUE(result.given_up);
  EXPECT_EQ(result.fault, Fault::kNone);
  EXPECT_EQ(memory.pauses, 3u);
  EXPECT_EQ(memory.words()[1], 0u);
}

// A loop that looks at several words in turn, and one that copies, never find the same word twice in a row.
TEST(Ptx, AKernelThatPollsSeveralWordsPausesNowAndThen) {
  const auto program = Load(R"(
    .reg .u64 %rd<2>; .reg .u32 %r<3>; .reg .pred %p<2>; ld.param.u64 %rd1, [p];
    AGAIN: ld.volatile.global.u32 %r1, [%rd1]; ld.volatile.global.u32 %r2, [%rd1+4];
    setp.eq.u32 %p0, %r1, 5; @%p0 bra OUT; setp.ne.u32 %p1, %r2, 9; @%p1 bra AGAIN; OUT: ret;)");
  ASSERT_TRUE(program) << program.error();
  Awaited memory(2);
  memory.writes_after = 3;
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin()).fault, Fault::kNone);
  EXPECT_EQ(memory.pauses, 3u);
}

TEST(Ptx, AKernelThatWorksAndPollsAFlagInEachRoundIsNotHeldUp) {
  const auto program = Load(R"(
    .reg .u64 %rd<2>; .reg .u32 %r<3>; .reg .pred %p<2>; ld.param.u64 %rd1, [p]; mov.u32 %r2, 0;
    AGAIN: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p0, %r1, 5; @%p0 bra OUT;
    add.u32 %r2, %r2, 1; st.global.u32 [%rd1+4], %r2; setp.lt.u32 %p1, %r2, 10000; @%p1 bra AGAIN; OUT: ret;)");
  ASSERT_TRUE(program) << program.error();
  Awaited memory(2);
  EXPECT_EQ(RunKernel(*program, memory, {1}, {1}, memory.Begin()).fault, Fault::kNone);
  EXPECT_EQ(memory.words()[1], 10000u);
  EXPECT_LE(memory.pauses, 10u);
}

TEST(Ptx, ALimitByTheTimerIsOneOfRealTimeWhileTheKernelWaitsForMemory) {
  const auto program = Load(R"(
    .reg .u64 %t<4>; .reg .u32 %r<2>; .reg .pred %p<2>; ld.param.u64 %t0, [p]; mov.u64 %t1, %globaltimer;
    AGAIN: ld.acquire.sys.global.u32 %r1, [%t0]; setp.eq.u32 %p0, %r1, 5; @%p0 bra OUT;
    mov.u64 %t2, %globaltimer; sub.u64 %t2, %t2, %t1; setp.lt.u64 %p1, %t2, 3600000000000; @%p1 bra AGAIN;
    OUT: st.global.u32 [%t0+4], %r1; ret;)");
  ASSERT_TRUE(program) << program.error();
  Awaited memory(2);
  memory.gives_up_after = memory.writes_after = 100'000;  // ten times what a timer that runs ahead would take
  ++memory.gives_up_after;
  const RunResult result = RunKernel(*program, memory, {1}, {1}, memory.Begin());
  EXPECT_EQ(memory.words()[1], 5u);
  EXPECT_LT(result.waited_ns, 3'600'000'000'000u);
}

TEST(Ptx, GlobalVariablesHaveInitialValuesAndAddresses) {
  auto text = ParseText(R"(.version 7.0
    .target sm_80
    .visible .global .align 8 .u32 table[4] = {1, 2, 0x30};
    .visible .entry k() { .reg .u64 %a; .reg .u32 %v; mov.u64 %a, table; ld.global.u32 %v, [table+8]; st.global.u32 [%a+12], %v; ret; })");
  ASSERT_TRUE(text) << text.error();
  ASSERT_EQ(text->globals.size(), 1u);
  EXPECT_EQ(text->globals[0].size, 16u);
  EXPECT_EQ(text->globals[0].alignment, 8u);
  EXPECT_EQ(text->globals[0].initial, (std::vector<std::uint8_t>{1, 0, 0, 0, 2, 0, 0, 0, 0x30, 0, 0, 0}));
  const auto program = Decode(std::move(*text));
  ASSERT_TRUE(program) << program.error();
  OneBuffer memory(4);
  memory.words()[2] = 0x30;
  const std::uint64_t address = memory.Begin();
  EXPECT_EQ(ptx::Run(program->kernels[0], {&address, 1}, {}, {}, {}, memory).fault, Fault::kNone);
  EXPECT_EQ(memory.words()[3], 0x30u);
}

TEST(Ptx, RefusesWhatItDoesNotKnowAndSaysWhereAndWhat) {
  const auto error = [](const std::string& body) {
    const auto program = Load(body);
    return program ? std::string("accepted") : program.error();
  };
  EXPECT_THAT(error("frob.u32 %r1, 7;"), HasSubstr("line 6: 'frob.u32' is not supported"));
  EXPECT_THAT(error(".reg .u32 %r<2>; mov.u32 %r5, 1;"), HasSubstr("'%r5' is not declared"));
  EXPECT_THAT(error("bra NOWHERE;"), HasSubstr("no label 'NOWHERE'"));
  EXPECT_THAT(error(".reg .u32 %r<2>; ld.shared.u32 %r1, [%r0];"), HasSubstr("not supported"));
  EXPECT_THAT(error(".reg .u64 %r; ld.param.u64 %r, [q];"), HasSubstr("no parameter 'q'"));
  EXPECT_THAT(error(".reg .u64 %r; ld.param.u64 %r, [p+1];"), HasSubstr("beyond the parameters"));
  EXPECT_THAT(error("ret"), HasSubstr("line 7: expected"));
  EXPECT_THAT(error("bar.sync 0;"), HasSubstr("not supported"));
  EXPECT_FALSE(ParseText("hello"));
  EXPECT_FALSE(ParseText(""));
}

RC_GTEST_PROP(PtxProperty, DamagedTextIsRefusedOrDecodedButNeverCrashes, ()) {
  std::string text =
      std::string(".version 8.0\n.target sm_50\n.visible .entry k(.param .u64 p, .param .u32 n, ") +
      ".param .u32 value) {" + kFill + "}";
  const auto edits = *rc::gen::container<std::vector<std::tuple<unsigned, char, bool>>>(rc::gen::tuple(
      rc::gen::arbitrary<unsigned>(), rc::gen::elementOf(std::string(".;,[]{}%<>0123-+@!:abx\n ")),
      rc::gen::arbitrary<bool>()));
  for (const auto& [place, letter, erase] : edits) {
    const std::size_t at = place % text.size();
    if (erase)
      text.erase(at, 1 + place % 7);
    else
      text[at] = letter;
    if (text.empty()) break;
  }
  auto parsed = ParseText(text);
  if (parsed) {
    const auto program = Decode(std::move(*parsed));
    const bool says_why = program || !program.error().empty();  // RC_ASSERT itself evaluates both sides
    RC_ASSERT(says_why);
  }
}

}  // namespace
}  // namespace gpuman::sim::cuda::ptx
