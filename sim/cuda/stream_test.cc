// Streams, events, kernels, capture.
#include <dlfcn.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "sim/cuda/test_cuda.h"

namespace gpuman::sim::cuda {
namespace {

// Makes a stream wait until the test lets it continue.
class Barrier {
 public:
  static void Wait(void* self) {
    auto& barrier = *static_cast<Barrier*>(self);
    std::unique_lock lock(barrier.mutex_);
    barrier.changed_.wait(lock, [&] { return barrier.open_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

CUstream NewStream(const Cuda& cu, unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  EXPECT_OK(cu.cuStreamCreate(&stream, flags));
  return stream;
}

TEST(SimCudaStream, WorkRunsInOrderAndTheHostDoesNotWait) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUstream stream = NewStream(cu);
    const CUdeviceptr words = Allocate(cu, 4096);
    Barrier barrier;
    EXPECT_OK(cu.cuLaunchHostFunc(stream, Barrier::Wait, &barrier));
    EXPECT_OK(Launch(cu, "fill", 4, 256, stream, words, 100u));
    for (unsigned i = 0; i < 10; ++i) EXPECT_OK(Launch(cu, "add", 1, 1024, stream, words, 1u));
    EXPECT_CU(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    barrier.Open();
    EXPECT_OK(cu.cuStreamSynchronize(stream));
    EXPECT_OK(cu.cuStreamQuery(stream));
    const auto read = ReadWords(cu, words, 1024);
    for (unsigned i = 0; i < 1024; ++i) ASSERT_EQ(read[i], 110 + i);
  });
}

TEST(SimCudaStream, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUstream blocking = NewStream(cu, CU_STREAM_DEFAULT), free = NewStream(cu);
    const CUdeviceptr word = Allocate(cu, 4);
    Barrier barrier;
    EXPECT_OK(cu.cuMemsetD32Async(word, 1, 1, blocking));
    EXPECT_OK(cu.cuLaunchHostFunc(blocking, Barrier::Wait, &barrier));
    EXPECT_OK(Launch(cu, "add", 1, 1, nullptr, word, 10u));    // legacy: after the barrier
    EXPECT_OK(Launch(cu, "add", 1, 1, blocking, word, 100u));  // after the legacy one
    EXPECT_OK(cu.cuLaunchHostFunc(
        free, [](void*) {}, nullptr));
    EXPECT_OK(cu.cuStreamSynchronize(free));  // waits for no other stream
    EXPECT_CU(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(nullptr));
    barrier.Open();
    EXPECT_OK(cu.cuStreamSynchronize(blocking));
    EXPECT_EQ(ReadWords(cu, word, 1).front(), 111u);
  });
}

TEST(SimCudaStream, ThePerThreadStreamIsTheTwinsNullStream) {
  OnDevice([](Cuda& cu, TestState&) {
    auto* const id = reinterpret_cast<fn::cuStreamGetId*>(dlsym(cu.handle, "cuStreamGetId_ptsz"));
    unsigned long long legacy = 0, own = 0, named = 0, other = 0;
    EXPECT_OK(cu.cuStreamGetId(nullptr, &legacy));
    EXPECT_OK(id(nullptr, &own));
    EXPECT_OK(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &named));
    CUcontext context = nullptr;
    EXPECT_OK(cu.cuCtxGetCurrent(&context));
    std::thread([&] {
      EXPECT_OK(cu.cuCtxSetCurrent(context));
      EXPECT_OK(id(nullptr, &other));
    }).join();
    EXPECT_NE(legacy, own);
    EXPECT_EQ(own, named);
    EXPECT_NE(own, other);
    EXPECT_OK(id(CU_STREAM_LEGACY, &named));
    EXPECT_EQ(named, legacy);
  });
}

TEST(SimCudaStream, EventsOrderStreamsAndMeasureTime) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUstream first = NewStream(cu), second = NewStream(cu);
    CUevent begin = nullptr, end = nullptr, plain = nullptr;
    EXPECT_OK(cu.cuEventCreate(&begin, CU_EVENT_DEFAULT));
    EXPECT_OK(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
    EXPECT_OK(cu.cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    float milliseconds = 0;
    EXPECT_OK(cu.cuEventQuery(end));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&milliseconds, end, end));
    const CUdeviceptr word = Allocate(cu, 4);
    Barrier barrier;
    EXPECT_OK(cu.cuEventRecord(begin, first));
    EXPECT_OK(cu.cuLaunchHostFunc(first, Barrier::Wait, &barrier));
    EXPECT_OK(cu.cuMemsetD32Async(word, 5, 1, first));
    EXPECT_OK(cu.cuEventRecord(end, first));
    EXPECT_OK(cu.cuStreamWaitEvent(second, end, 0));
    EXPECT_OK(Launch(cu, "add", 1, 1, second, word, 1u));
    EXPECT_CU(CUDA_ERROR_NOT_READY, cu.cuEventQuery(end));
    EXPECT_CU(CUDA_ERROR_NOT_READY, cu.cuEventElapsedTime(&milliseconds, begin, end));
    barrier.Open();
    EXPECT_OK(cu.cuEventSynchronize(end));
    EXPECT_OK(cu.cuStreamSynchronize(second));
    EXPECT_EQ(ReadWords(cu, word, 1).front(), 6u);
    EXPECT_OK(cu.cuEventElapsedTime(&milliseconds, begin, end));
    EXPECT_GT(milliseconds, 0);
    EXPECT_OK(cu.cuEventRecord(plain, first));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime_v2(&milliseconds, plain, plain));
    EXPECT_OK(cu.cuEventDestroy_v2(plain));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuEventDestroy_v2(plain));
  });
}

TEST(SimCudaStream, ASpinningKernelTakesItsTimeAndShowsAsUtilization) {
  OnDevice([](Cuda& cu, TestState& state) {
    CUevent begin = nullptr, end = nullptr;
    EXPECT_OK(cu.cuEventCreate(&begin, 0));
    EXPECT_OK(cu.cuEventCreate(&end, 0));
    EXPECT_OK(cu.cuEventRecord(begin, nullptr));
    EXPECT_OK(Launch(cu, "spin", 64, 256, nullptr, std::uint64_t{200'000'000}));
    EXPECT_OK(cu.cuEventRecord(end, nullptr));
    EXPECT_OK(cu.cuEventSynchronize(end));
    float milliseconds = 0;
    EXPECT_OK(cu.cuEventElapsedTime(&milliseconds, begin, end));
    EXPECT_GE(milliseconds, 199);
    EXPECT_GT(DeviceUtilization(state.shared(), 0, MonotonicNs()), 0u);
  });
}

TEST(SimCudaStream, ADestroyedStreamFinishesItsWork) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUstream stream = NewStream(cu);
    const CUdeviceptr word = Allocate(cu, 4);
    Barrier barrier;
    EXPECT_OK(cu.cuLaunchHostFunc(stream, Barrier::Wait, &barrier));
    EXPECT_OK(cu.cuMemsetD32Async(word, 9, 1, stream));
    EXPECT_OK(cu.cuStreamDestroy_v2(stream));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamSynchronize(stream));
    barrier.Open();
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(ReadWords(cu, word, 1).front(), 9u);
  });
}

TEST(SimCudaStream, CallbacksMayNotCallTheDriver) {
  OnDevice([](Cuda& cu, TestState&) {
    struct Callback {
      Cuda* cu;
      CUresult result;
    } callback{&cu, CUDA_SUCCESS};
    EXPECT_OK(cu.cuLaunchHostFunc(
        nullptr,
        [](void* data) {
          auto& to = *static_cast<Callback*>(data);
          to.result = to.cu->cuCtxSynchronize();
        },
        &callback));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_CU(CUDA_ERROR_NOT_PERMITTED, callback.result);
  });
}

TEST(SimCudaLaunch, RefusesBadShapesAndParameters) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr word = Allocate(cu, 4);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, Launch(cu, "store", 0, 1, nullptr, word));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, Launch(cu, "store", 1, 0, nullptr, word));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, Launch(cu, "store", 1, 2000, nullptr, word));
    const CUfunction store = FunctionNamed(cu, "store");
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuLaunchKernel(reinterpret_cast<CUfunction>(0x1234), 1, 1, 1, 1,
                                                           1, 1, 0, nullptr, nullptr, nullptr));
    CUdeviceptr copy = word;
    std::size_t size = sizeof copy;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &copy, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    EXPECT_OK(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_EQ(ReadWords(cu, word, 1).front(), 7u);
  });
}

TEST(SimCudaLaunch, AFaultSpoilsTheProcessForGood) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUdeviceptr word = Allocate(cu, 4);
    EXPECT_OK(Launch(cu, "store", 1, 1, nullptr, std::uint64_t{0x1234560000}));
    EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemFree_v2(word));
    CUcontext other = nullptr, now = nullptr;
    EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxCreate_v2(&other, 0, 0));
    EXPECT_OK(cu.cuCtxGetCurrent(&now));
    EXPECT_OK(cu.cuDevicePrimaryCtxReset_v2(0));
  });
}

TEST(SimCudaLaunch, ModulesSayWhatIsWrongWithThem) {
  OnDevice([](Cuda& cu, TestState&) {
    CUmodule module = nullptr;
    const auto load = [&](std::string text, const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
      return cu.cuModuleLoadData(&module, text.c_str());
    };
    EXPECT_CU(CUDA_ERROR_INVALID_PTX, load(kTestKernels, "mad.lo.u32", "frob.u32"));
    EXPECT_CU(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, load(kTestKernels, "7.0", "99.0"));
    EXPECT_CU(CUDA_ERROR_INVALID_PTX, load(kTestKernels, "sm_50", "sm_120"));
    EXPECT_CU(CUDA_ERROR_INVALID_IMAGE, load(kTestKernels, ".version 7.0", ""));
    EXPECT_CU(CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, "hello"));
    EXPECT_CU(CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module,
                                                            "\x7f"
                                                            "ELF-and-more"));
    EXPECT_CU(CUDA_ERROR_FILE_NOT_FOUND, cu.cuModuleLoad(&module, "/nonexistent"));
    EXPECT_OK(cu.cuModuleLoadData(&module, kTestKernels));
    CUfunction function = nullptr;
    EXPECT_CU(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(&function, module, "nope"));
    CUdeviceptr answer = 0;
    std::size_t size = 0;
    EXPECT_OK(cu.cuModuleGetGlobal_v2(&answer, &size, module, "answer"));
    EXPECT_EQ(size, 4u);
    EXPECT_EQ(ReadWords(cu, answer, 1).front(), 42u);
    EXPECT_OK(cu.cuModuleUnload(module));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleUnload(module));
  });
}

TEST(SimCudaLaunch, KernelsOfALibraryRunInAnyContext) {
  OnDevice([](Cuda& cu, TestState&) {
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    ASSERT_OK(cu.cuLibraryLoadData(&library, kTestKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
    ASSERT_OK(cu.cuLibraryGetKernel(&kernel, library, "store"));
    CUdeviceptr word = Allocate(cu, 4);
    void* parameters[] = {&word};
    EXPECT_OK(cu.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                                parameters, nullptr));
    EXPECT_EQ(ReadWords(cu, word, 1).front(), 7u);
    EXPECT_OK(cu.cuLibraryUnload(library));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cu.cuLibraryGetKernel(&kernel, library, "store"));
  });
}

TEST(SimCudaGraph, CapturedWorkRunsOnEachLaunch) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUstream stream = NewStream(cu), other = NewStream(cu);
    const CUdeviceptr words = Allocate(cu, 4096);
    std::vector<std::uint32_t> host(1024);
    EXPECT_OK(cu.cuMemHostRegister_v2(host.data(), host.size() * 4, 0));
    EXPECT_OK(cu.cuMemsetD32_v2(words, 0, 1024));
    CUevent forked = nullptr, joined = nullptr;
    EXPECT_OK(cu.cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    EXPECT_OK(cu.cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    EXPECT_OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(Launch(cu, "add", 1, 1024, stream, words, 3u));
    EXPECT_OK(cu.cuEventRecord(forked, stream));
    EXPECT_OK(cu.cuStreamWaitEvent(other, forked, 0));
    EXPECT_OK(cu.cuMemcpyDtoHAsync_v2(host.data(), words, 4096, other));
    EXPECT_OK(cu.cuEventRecord(joined, other));
    EXPECT_OK(cu.cuStreamWaitEvent(stream, joined, 0));
    CUstreamCaptureStatus status{};
    EXPECT_OK(cu.cuStreamIsCapturing(other, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_OK(cu.cuStreamEndCapture(stream, &graph));
    ASSERT_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_OK(cu.cuGraphDestroy(graph));
    EXPECT_EQ(ReadWords(cu, words, 1).front(), 0u);  // nothing has run yet
    for (unsigned i = 1; i <= 5; ++i) {
      EXPECT_OK(cu.cuGraphLaunch(exec, stream));
      EXPECT_OK(cu.cuStreamSynchronize(stream));
      EXPECT_EQ(host[1023], 3 * i);
    }
    EXPECT_OK(cu.cuGraphExecDestroy(exec));
  });
}

TEST(SimCudaGraph, WaitingSpoilsACapture) {
  OnDevice([](Cuda& cu, TestState&) {
    const CUstream stream = NewStream(cu), blocking = NewStream(cu, CU_STREAM_DEFAULT);
    CUgraph graph = nullptr;
    CUdeviceptr pointer = 0;
    const auto spoiled_by = [&](const std::function<CUresult()>& call) {
      EXPECT_OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call());
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
      EXPECT_EQ(graph, nullptr);
    };
    spoiled_by([&] { return cu.cuStreamSynchronize(stream); });
    spoiled_by([&] { return cu.cuStreamQuery(stream); });
    spoiled_by([&] { return cu.cuCtxSynchronize(); });
    spoiled_by([&] { return cu.cuMemAlloc_v2(&pointer, 1); });
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(stream, &graph));
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              cu.cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
    // The legacy stream cannot wait for a blocking stream that captures.
    EXPECT_OK(cu.cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(cu.cuMemAlloc_v2(&pointer, 4));
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuMemsetD32Async(pointer, 1, 1, nullptr));
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(blocking, &graph));
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda
