#include "sim/cuda/test_cuda.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gpuman::sim::cuda {

const char* const kTestKernels = R"(
.version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 answer = 42;
.visible .entry fill(.param .u64 p, .param .u32 value) {
  .reg .u64 %a<3>; .reg .u32 %r<6>;
  ld.param.u64 %a0, [p]; ld.param.u32 %r0, [value];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %a1, %r1, 4; add.u64 %a0, %a0, %a1; add.u32 %r0, %r0, %r1; st.global.u32 [%a0], %r0; ret;
}
.visible .entry add(.param .u64 p, .param .u32 value) {
  .reg .u64 %a<3>; .reg .u32 %r<6>;
  ld.param.u64 %a0, [p]; ld.param.u32 %r0, [value]; mov.u32 %r3, %tid.x; mul.wide.u32 %a1, %r3, 4;
  add.u64 %a0, %a0, %a1; ld.global.u32 %r4, [%a0]; add.u32 %r4, %r4, %r0; st.global.u32 [%a0], %r4; ret;
}
.visible .entry spin(.param .u64 ns) {
  .reg .u64 %t<4>; .reg .pred %p;
  ld.param.u64 %t0, [ns]; mov.u64 %t1, %globaltimer;
  AGAIN: mov.u64 %t2, %globaltimer; sub.u64 %t2, %t2, %t1; setp.lt.u64 %p, %t2, %t0; @%p bra AGAIN; ret;
}
.visible .entry await(.param .u64 p, .param .u32 value) {
  .reg .u64 %a; .reg .u32 %r<2>; .reg .pred %q;
  ld.param.u64 %a, [p]; ld.param.u32 %r0, [value];
  AGAIN: ld.acquire.sys.global.u32 %r1, [%a]; setp.ne.u32 %q, %r1, %r0; @%q bra AGAIN; ret;
}
.visible .entry store(.param .u64 p) {
  .reg .u64 %a; .reg .u32 %r; ld.param.u64 %a, [p]; mov.u32 %r, 7; st.global.u32 [%a], %r; ret;
}
)";

Cuda::Cuda() : handle(dlopen(GPUMAN_SIM_CUDA, RTLD_NOW | RTLD_LOCAL)) {
  if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror());
#define GPUMAN_TEST_LOOK_UP(name, symbol, version, twin, parameters, arguments) \
  this->symbol = reinterpret_cast<fn::symbol*>(dlsym(handle, #symbol));
  GPUMAN_CUDA_FUNCTIONS(GPUMAN_TEST_LOOK_UP)
#undef GPUMAN_TEST_LOOK_UP
}

std::string NameOf(CUresult result) {
  switch (result) {
#define GPUMAN_TEST_NAME(name, value) \
  case name:                          \
    return #name;
    GPUMAN_CUDA_RESULTS(GPUMAN_TEST_NAME)
#undef GPUMAN_TEST_NAME
  }
  return std::to_string(result);
}

testing::AssertionResult Gives(const char*, const char* call_text, CUresult expected, CUresult given) {
  if (expected == given) return testing::AssertionSuccess();
  return testing::AssertionFailure() << call_text << "\n  gives " << NameOf(given) << " instead of "
                                     << NameOf(expected);
}

bool Forked(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void OnState(const CreateOptions& options, const Body& body) {
  TestState state(options);
  const bool passed = Forked([&] {
    setenv(kDirectoryVariable, state.directory().c_str(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    Cuda cu;
    ASSERT_NE(cu.cuInit, nullptr);
    body(cu, state);
  });
  EXPECT_TRUE(passed);
}

void Start(const Cuda& cu) {
  CUcontext context = nullptr;
  EXPECT_OK(cu.cuInit(0));
  EXPECT_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_OK(cu.cuCtxSetCurrent(context));
}

void OnDevice(const Body& body, const CreateOptions& options) {
  OnState(options, [&](Cuda& cu, TestState& state) {
    Start(cu);
    body(cu, state);
  });
}

std::uint64_t FreeBytes(const Cuda& cu) {
  std::size_t free = 0, total = 0;
  EXPECT_OK(cu.cuMemGetInfo_v2(&free, &total));
  return free;
}

CUdeviceptr Allocate(const Cuda& cu, std::size_t bytes) {
  CUdeviceptr pointer = 0;
  EXPECT_OK(cu.cuMemAlloc_v2(&pointer, bytes));
  return pointer;
}

std::vector<std::uint32_t> ReadWords(const Cuda& cu, CUdeviceptr from, std::size_t count) {
  std::vector<std::uint32_t> words(count, 0xeeeeeeee);
  EXPECT_OK(cu.cuMemcpyDtoH_v2(words.data(), from, count * 4));
  return words;
}

bool AllWordsAre(const Cuda& cu, CUdeviceptr from, std::size_t count, std::uint32_t value) {
  const auto words = ReadWords(cu, from, count);
  return std::all_of(words.begin(), words.end(), [&](std::uint32_t word) { return word == value; });
}

CUfunction FunctionNamed(const Cuda& cu, const char* name) {
  static CUmodule module = nullptr;
  if (module == nullptr) {
    EXPECT_OK(cu.cuModuleLoadData(&module, kTestKernels));
  }
  CUfunction function = nullptr;
  EXPECT_OK(cu.cuModuleGetFunction(&function, module, name));
  return function;
}

}  // namespace gpuman::sim::cuda
