// What a real driver does with streams that wait for a word of host memory (cuStreamWaitValue32): the
// questions that work kept back on the GPU itself depends on (src/shim/gate). Needs libcuda.so.1 at run time.
//
//   stream_wait_probe [SECONDS]     (of each measurement; default 3)
//
// Prints one line for each question. Two processes (this program again) use the GPU at once; both take a few
// MiB of it.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "driver/abi/cuda.h"

namespace {

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

#define CALLS(X)                                                                                           \
  X(cuInit, unsigned)                                                                                      \
  X(cuDevicePrimaryCtxRetain, CUcontext*, CUdevice)                                                        \
  X(cuCtxSetCurrent, CUcontext)                                                                            \
  X(cuDeviceGetAttribute, int*, int, CUdevice)                                                             \
  X(cuCtxSynchronize, void)                                                                                \
  X(cuModuleLoadData, void**, const void*)                                                                 \
  X(cuModuleGetFunction, void**, void*, const char*)                                                       \
  X(cuCtxCreate_v2, CUcontext*, unsigned, CUdevice)                                                        \
  X(cuCtxDestroy_v2, CUcontext)                                                                            \
  X(cuMemHostRegister_v2, void*, std::size_t, unsigned)                                                    \
  X(cuMemHostUnregister, void*)                                                                            \
  X(cuStreamBeginCapture_v2, CUstream, CUstreamCaptureMode)                                                \
  X(cuStreamEndCapture, CUstream, CUgraph*)                                                                \
  X(cuStreamCreate, CUstream*, unsigned)                                                                   \
  X(cuStreamSynchronize, CUstream)                                                                         \
  X(cuStreamQuery, CUstream)                                                                               \
  X(cuMemHostAlloc, void**, std::size_t, unsigned)                                                         \
  X(cuMemHostGetDevicePointer_v2, CUdeviceptr*, void*, unsigned)                                           \
  X(cuStreamWaitValue32_v2, CUstream, CUdeviceptr, unsigned, unsigned)                                     \
  X(cuStreamWriteValue32_v2, CUstream, CUdeviceptr, unsigned, unsigned)                                    \
  X(cuStreamBatchMemOp_v2, CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned)                        \
  X(cuLaunchKernel, void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
    void**, void**)

#define DECLARE(name, ...) CUresult (*name)(__VA_ARGS__);
CALLS(DECLARE)
#undef DECLARE

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
  std::exit(1);
}
#define DO(call) Check(call, #call)

// A thread that does nothing but look at the clock for so many nanoseconds; 132 blocks of it fill an H200.
constexpr const char* kPtx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry spin(.param .u32 ns)\n{\n"
    "  .reg .u64 %rd<4>;\n  .reg .u32 %r<2>;\n  .reg .pred %p<2>;\n"
    "  ld.param.u32 %r1, [ns];\n  cvt.u64.u32 %rd1, %r1;\n  mov.u64 %rd2, %globaltimer;\n"
    "  add.u64 %rd2, %rd2, %rd1;\nAGAIN:\n  mov.u64 %rd3, %globaltimer;\n"
    "  setp.lt.u64 %p1, %rd3, %rd2;\n  @%p1 bra AGAIN;\n  ret;\n}\n"
    // Works: so many rounds of multiply and add; its time grows where others use the multiprocessors.
    ".visible .entry work(.param .u32 rounds)\n{\n"
    "  .reg .u32 %r<6>;\n  .reg .f32 %f<4>;\n  .reg .pred %p<2>;\n"
    "  ld.param.u32 %r1, [rounds];\n  mov.u32 %r2, 0;\n  mov.f32 %f1, 0f3F800000;\n  mov.f32 %f2, "
    "0f3F000000;\n"
    "MORE:\n  fma.rn.f32 %f1, %f1, %f2, %f2;\n  fma.rn.f32 %f1, %f1, %f2, %f2;\n"
    "  fma.rn.f32 %f1, %f1, %f2, %f2;\n  fma.rn.f32 %f1, %f1, %f2, %f2;\n"
    "  add.u32 %r2, %r2, 1;\n  setp.lt.u32 %p1, %r2, %r1;\n  @%p1 bra MORE;\n"
    "  setp.eq.f32 %p1, %f1, 0f40400000;\n  @%p1 trap;\n  ret;\n}\n";

std::uint64_t Now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

double Since(std::uint64_t began, double unit) { return static_cast<double>(Now() - began) / unit; }

// What both processes see: how the requests go, and what the other does about them.
struct Common {
  std::atomic<std::uint32_t> request;  // 1: the server has work
  std::atomic<std::uint32_t> mode;     // what the background does, see kModes
  std::atomic<std::uint32_t> done;     // kernels of the background
  std::atomic<std::uint32_t> ready, stop;
};

struct Gpu {
  void* spin = nullptr;
  void* work = nullptr;
  volatile std::uint32_t* word = nullptr;  // 0: the flag; 1: what has been done
  CUdeviceptr at = 0;
  CUstream stream = nullptr;
  CUcontext context = nullptr;

  Gpu() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) std::exit(77);
#define LOAD(name, ...) name = reinterpret_cast<decltype(name)>(::dlsym(library, #name));
    CALLS(LOAD)
#undef LOAD
    DO(cuInit(0));
    DO(cuDevicePrimaryCtxRetain(&context, 0));
    DO(cuCtxSetCurrent(context));
    void* module = nullptr;
    DO(cuModuleLoadData(&module, kPtx));
    DO(cuModuleGetFunction(&spin, module, "spin"));
    DO(cuModuleGetFunction(&work, module, "work"));
    void* host = nullptr;
    DO(cuMemHostAlloc(&host, 4096, 3));
    word = static_cast<volatile std::uint32_t*>(host);
    DO(cuMemHostGetDevicePointer_v2(&at, host, 0));
    DO(cuStreamCreate(&stream, 1));
  }
  void Launch(void* kernel, std::uint32_t value) {
    void* parameter[] = {&value};
    DO(cuLaunchKernel(kernel, 264, 1, 1, 256, 1, 1, 0, stream, parameter, nullptr));
  }
  // The stream says that `done` marks are behind it, and waits for the flag to reach `wait`.
  void Mark(std::uint32_t done, std::uint32_t wait) {
    CUstreamBatchMemOpParams operation[2] = {};
    operation[0].waitValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation[0].waitValue.address = at + 4;
    operation[0].waitValue.value64 = done;
    operation[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation[1].waitValue.address = at;
    operation[1].waitValue.value64 = wait;
    operation[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    DO(cuStreamBatchMemOp_v2(stream, 2, operation, 0));
  }
};

// How many rounds of `work` take about so many microseconds when it is alone.
std::uint32_t RoundsFor(Gpu& gpu, double us) {
  std::uint32_t rounds = 1000;
  for (int i = 0; i < 4; ++i) {
    gpu.Launch(gpu.work, rounds);
    DO(cuStreamSynchronize(gpu.stream));
    const std::uint64_t began = Now();
    for (int k = 0; k < 20; ++k) gpu.Launch(gpu.work, rounds);
    DO(cuStreamSynchronize(gpu.stream));
    const double took = static_cast<double>(Now() - began) / 20e3;
    rounds = static_cast<std::uint32_t>(std::max(1.0, rounds * us / took));
  }
  return rounds;
}

void Costs(Gpu& gpu) {
  constexpr int kLaunches = 5000;
  for (const std::uint32_t us : {0U, 5U, 20U, 50U}) {
    for (const int how : {0, 1, 2, 4}) {
      gpu.word[0] = 0x3fffffff;
      DO(cuStreamSynchronize(gpu.stream));
      const std::uint64_t began = Now();
      for (int i = 0; i < kLaunches; ++i) {
        if (how != 0 && i % how == 0) gpu.Mark(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i));
        gpu.Launch(gpu.spin, us * 1000);
      }
      const double submitted = Since(began, 1e3);
      DO(cuStreamSynchronize(gpu.stream));
      const std::string marks = how == 0 ? "no marks" : "a mark each " + std::to_string(how);
      std::printf("%d launches of %2u us, %-13s: submitted in %6.2f us each, done in %6.2f us each\n",
                  kLaunches, us, marks.c_str(), submitted / kLaunches, Since(began, 1e3) / kLaunches);
    }
  }
}

// How much goes behind a wait before a launch blocks.
void Depth(Gpu& gpu) {
  gpu.word[0] = 0;
  std::atomic<std::uint32_t> launched{0};
  std::thread thread([&] {
    for (std::uint32_t i = 0; i < 20000; ++i) {
      gpu.Mark(i, i + 1);
      gpu.Launch(gpu.spin, 1000);
      launched = i + 1;
    }
  });
  std::uint32_t before = 0;
  do {
    before = launched;
    ::usleep(200000);
  } while (before != launched);
  std::printf("marks and launches behind a wait before a launch blocks: %u\n", before);
  const std::uint64_t began = Now();
  gpu.word[0] = 0x3fffffff;
  thread.join();
  DO(cuStreamSynchronize(gpu.stream));
  std::printf("after the flag was set all ended in %.1f ms\n", Since(began, 1e6));
}

// The background: launches without end, and does what the mode says while the server has work.
enum Mode : std::uint32_t { kNothing, kFree, kMarked, kGated, kBlocked };
constexpr const char* kModes[] = {"alone", "beside launches, no control",
                                  "beside launches with marks, no control", "beside launches, gated",
                                  "beside a queue that is blocked"};

void Background(Common& common, double kernel_us) {
  Gpu gpu;
  const std::uint32_t rounds = RoundsFor(gpu, kernel_us);
  std::atomic<bool> ends{false};
  std::atomic<std::uint32_t> number{0};
  gpu.word[0] = 0x3fffffff;
  std::thread gate([&] {
    std::uint32_t last = 0;
    while (!ends) {
      const bool blocks = common.mode == kBlocked || (common.request.load() != 0 && common.mode == kGated);
      const std::uint32_t now = blocks ? 1 : 0;
      // What runs goes on; what comes after it waits.
      if (now != last) gpu.word[0] = blocks ? gpu.word[1] + 1 : 0x3fffffff;
      last = now;
    }
  });
  common.ready = 1;
  while (common.stop == 0) {
    if (common.mode == kNothing) {
      ::usleep(1000);
      continue;
    }
    // At most 20 ms are queued, as a program has that waits now and then.
    while (common.mode != kBlocked && number - gpu.word[1] > 20000 / kernel_us && common.stop == 0)
      ::usleep(50);
    if (common.mode == kBlocked && number - gpu.word[1] > 400) {
      ::usleep(1000);
      continue;
    }
    if (common.mode != kFree) gpu.Mark(number, number + 1);
    gpu.Launch(gpu.work, rounds);
    ++number;
    if (common.mode == kFree) {
      DO(cuStreamWriteValue32_v2(gpu.stream, gpu.at + 4, number, 0));
    }
    common.done = number.load();
  }
  ends = true;
  gate.join();
  gpu.word[0] = 0x3fffffff;
  DO(cuCtxSynchronize());
}

void Serve(Common& common, double seconds, double kernel_us) {
  Gpu gpu;
  const std::uint32_t rounds = RoundsFor(gpu, 50);
  while (common.ready == 0) ::usleep(1000);
  double alone = 0;
  for (const Mode mode : {kNothing, kFree, kMarked, kGated, kBlocked}) {
    common.mode = mode;
    ::usleep(300000);
    std::vector<double> took;
    const std::uint32_t before = common.done;
    const std::uint64_t began = Now(), end = began + static_cast<std::uint64_t>(seconds * 1e9);
    while (Now() < end) {
      ::usleep(20000);
      const std::uint64_t from = Now();
      common.request = 1;
      for (int i = 0; i < 100; ++i) gpu.Launch(gpu.work, rounds);
      DO(cuStreamSynchronize(gpu.stream));
      common.request = 0;
      took.push_back(static_cast<double>(Now() - from) / 1e6);
    }
    std::sort(took.begin(), took.end());
    const double rate = (common.done - before) * kernel_us / (static_cast<double>(Now() - began) / 1e3);
    const double p99 = took[took.size() * 99 / 100];
    if (mode == kNothing) alone = p99;
    std::printf(
        "requests %-40s: p50 %5.2f, p99 %5.2f, most %5.2f ms of %zu, p99 %.2f of alone; background %.0f %%\n",
        kModes[mode], took[took.size() / 2], p99, took.back(), took.size(), p99 / alone, 100 * rate);
    std::fflush(stdout);
  }
  common.mode = kNothing;
  common.stop = 1;
}

// Whether a mark into one stream spoils the capture of another, and what becomes of a launch beside it.
void BesideACapture(Gpu& gpu) {
  CUstream captured = nullptr;
  CUgraph graph = nullptr;
  DO(cuStreamCreate(&captured, 1));
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    gpu.word[0] = 1;
    DO(cuStreamBeginCapture_v2(captured, mode));
    std::thread([&] {
      DO(cuCtxSetCurrent(gpu.context));
      gpu.Mark(1, 0);
      gpu.Launch(gpu.spin, 1000);
    }).join();
    gpu.Mark(2, 0);
    std::printf("marks beside a capture (mode %d), by another thread and by its own: its end returns %d\n",
                static_cast<int>(mode), static_cast<int>(cuStreamEndCapture(captured, &graph)));
    DO(cuStreamSynchronize(gpu.stream));
  }
}

// Whether the driver forgets memory of the host that was registered in a context that has ended.
void RegisteredInAContextThatEnds(Gpu& gpu) {
  void* const words = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUcontext context = nullptr;
  DO(cuCtxCreate_v2(&context, 0, 0));
  DO(cuMemHostRegister_v2(words, 4096, 2));
  DO(cuCtxDestroy_v2(context));
  DO(cuCtxSetCurrent(gpu.context));
  const CUresult removed = cuMemHostUnregister(words);
  std::printf(
      "memory registered in a context that has ended: it is unregistered with %d, and again with %d\n",
      static_cast<int>(removed), static_cast<int>(cuMemHostRegister_v2(words, 4096, 2)));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const pid_t first = ::fork();
  if (first == 0) {
    Gpu gpu;
    int can = -1;
    DO(cuDeviceGetAttribute(&can, 92, 0));
    std::printf("attribute 92 (stream memory operations, version 1): %d\n", can);
    Costs(gpu);
    Depth(gpu);
    BesideACapture(gpu);
    RegisteredInAContextThatEnds(gpu);
    std::exit(0);
  }
  ::waitpid(first, nullptr, 0);
  for (const double kernel_us : {50.0, 500.0}) {
    void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Common& common = *new (shared) Common{};
    std::printf("background of kernels of %.0f us; a request is 100 kernels of 50 us, each 20 ms\n",
                kernel_us);
    const pid_t background = ::fork();
    if (background == 0) {
      Background(common, kernel_us);
      std::exit(0);
    }
    const pid_t server = ::fork();
    if (server == 0) {
      Serve(common, seconds, kernel_us);
      std::exit(0);
    }
    ::waitpid(server, nullptr, 0);
    common.stop = 1;
    ::waitpid(background, nullptr, 0);
  }
  return 0;
}
