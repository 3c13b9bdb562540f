// Stream capture: the calls that it forbids, and that a captured graph runs.

#include <functional>

#include "conformance.h"

namespace gpuman::conformance {
namespace {

class Capture : public WithContext {
 protected:
  // Ends a capture, valid or not.
  static abi::CUresult End(abi::CUstream stream) {
    abi::CUgraph graph = nullptr;
    const auto result = CU(cuStreamEndCapture, stream, &graph);
    if (graph) CU(cuGraphDestroy, graph);
    return result;
  }
  static abi::CUstreamCaptureStatus Status(abi::CUstream stream) {
    abi::CUstreamCaptureStatus status{};
    EXPECT_OK(CU(cuStreamIsCapturing, stream, &status));
    return status;
  }
};

TEST_F(Capture, RecordsWithoutRunningAndReplays) {
  Stream stream;
  DeviceMemory memory(kMiB);
  ASSERT_OK(Fill(module_, memory.get(), kMiB, 1));
  ASSERT_OK(CU(cuCtxSynchronize));
  ASSERT_OK(CU(cuStreamBeginCapture_v2, stream.get(), abi::CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(Status(stream.get()), abi::CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(AddOne(module_, memory.get(), kMiB, stream.get()));
  EXPECT_OK(AddOne(module_, memory.get(), kMiB, stream.get()));
  abi::CUgraph graph = nullptr;
  ASSERT_OK(CU(cuStreamEndCapture, stream.get(), &graph));
  EXPECT_EQ(Status(stream.get()), abi::CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(Wrong(module_, memory.get(), kMiB, 1), 0u) << "nothing ran yet";
  std::size_t nodes = 0;
  EXPECT_OK(CU(cuGraphGetNodes, graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 2u);
  abi::CUgraphExec executable = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags, &executable, graph, 0ull));
  for (int i = 0; i < 3; ++i) EXPECT_OK(CU(cuGraphLaunch, executable, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_EQ(Wrong(module_, memory.get(), kMiB, 1, 6), 0u);
  EXPECT_OK(CU(cuGraphExecDestroy, executable));
  EXPECT_OK(CU(cuGraphDestroy, graph));
}

TEST_F(Capture, IntoAGraphAddsToThatOne) {
  Stream stream;
  DeviceMemory memory(kMiB);
  ASSERT_OK(Fill(module_, memory.get(), kMiB, 1));
  ASSERT_OK(CU(cuCtxSynchronize));
  abi::CUgraph graph = nullptr, same = nullptr;
  ASSERT_OK(CU(cuGraphCreate, &graph, 0u));
  const auto begin = [&](abi::CUgraph into, std::size_t dependencies) {
    return CU(cuStreamBeginCaptureToGraph, stream.get(), into, nullptr, nullptr, dependencies,
              abi::CU_STREAM_CAPTURE_MODE_GLOBAL);
  };
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, begin(nullptr, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, begin(graph, 1)) << "of which there are none";
  ASSERT_OK(begin(graph, 0));
  EXPECT_EQ(Status(stream.get()), abi::CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(AddOne(module_, memory.get(), kMiB, stream.get()));
  ASSERT_OK(CU(cuStreamEndCapture, stream.get(), &same));
  EXPECT_EQ(same, graph);
  abi::CUgraphExec executable = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags, &executable, graph, 0ull));
  EXPECT_OK(CU(cuGraphLaunch, executable, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_EQ(Wrong(module_, memory.get(), kMiB, 1, 1), 0u);
  EXPECT_OK(CU(cuGraphExecDestroy, executable));
  EXPECT_OK(CU(cuGraphDestroy, graph));
}

TEST_F(Capture, SynchronizingTheStreamSpoilsIt) {
  Stream stream;
  ASSERT_OK(CU(cuStreamBeginCapture_v2, stream.get(), abi::CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CU(cuStreamSynchronize, stream.get()));
  EXPECT_EQ(Status(stream.get()), abi::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, End(stream.get()));
  EXPECT_EQ(Status(stream.get()), abi::CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(Capture, CallsRefusedDuringACaptureAndTheirEffects) {
  Stream stream, other;
  DeviceMemory memory(kMiB);
  abi::CUevent event = nullptr;
  ASSERT_OK(CU(cuEventCreate, &event, 0u));
  abi::CUdeviceptr pointer = 0;
  std::size_t free = 0, total = 0;
  unsigned char byte = 0;
  struct {
    const char* name;
    std::function<abi::CUresult()> call;
  } const calls[] = {
      {"cuMemAlloc",
       [&] {
         const auto result = CU(cuMemAlloc_v2, &pointer, kMiB);
         if (result == abi::CUDA_SUCCESS) CU(cuMemFree_v2, pointer);
         return result;
       }},
      {"cuMemGetInfo", [&] { return CU(cuMemGetInfo_v2, &free, &total); }},
      {"cuCtxSynchronize", [&] { return CU(cuCtxSynchronize); }},
      {"cuStreamQuery", [&] { return CU(cuStreamQuery, stream.get()); }},
      {"cuStreamQuery of another", [&] { return CU(cuStreamQuery, other.get()); }},
      {"cuStreamSynchronize of another", [&] { return CU(cuStreamSynchronize, other.get()); }},
      {"cuMemcpyDtoH", [&] { return CU(cuMemcpyDtoH_v2, &byte, memory.get(), std::size_t{1}); }},
      {"cuEventQuery of a captured event",
       [&] {
         EXPECT_OK(CU(cuEventRecord, event, stream.get()));
         return CU(cuEventQuery, event);
       }},
      {"cuMemsetD8 on the legacy stream",
       [&] { return CU(cuMemsetD8Async, memory.get(), static_cast<unsigned char>(0), kMiB, nullptr); }},
  };
  for (const auto mode : {abi::CU_STREAM_CAPTURE_MODE_GLOBAL, abi::CU_STREAM_CAPTURE_MODE_RELAXED}) {
    for (const auto& [name, call] : calls) {
      ASSERT_OK(CU(cuStreamBeginCapture_v2, stream.get(), mode));
      const auto result = call();
      const auto status = Status(stream.get());
      const std::string key = std::string("capture.") +
                              (mode == abi::CU_STREAM_CAPTURE_MODE_GLOBAL ? "global." : "relaxed.") + name;
      Fact(key, CudaErrorName(result) +
                    (status == abi::CU_STREAM_CAPTURE_STATUS_INVALIDATED ? ", spoilt" : ", goes on"));
      const auto end = End(stream.get());
      EXPECT_EQ(end == abi::CUDA_SUCCESS, status == abi::CU_STREAM_CAPTURE_STATUS_ACTIVE) << key;
    }
  }
  EXPECT_OK(CU(cuEventDestroy_v2, event));
}

TEST_F(Capture, TheRelaxedModeAllowsAllocation) {
  Stream stream;
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuStreamBeginCapture_v2, stream.get(), abi::CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_OK(CU(cuMemAlloc_v2, &pointer, kMiB));
  EXPECT_OK(End(stream.get()));
  EXPECT_OK(CU(cuMemFree_v2, pointer));
}

TEST_F(Capture, AStreamOrderedAllocationBecomesANode) {
  Stream stream;
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuStreamBeginCapture_v2, stream.get(), abi::CU_STREAM_CAPTURE_MODE_GLOBAL));
  const auto result = CU(cuMemAllocAsync, &pointer, kMiB, stream.get());
  Fact("capture.alloc_async", result);
  if (Simulated() && result == abi::CUDA_ERROR_NOT_SUPPORTED) {
    End(stream.get());
    GTEST_SKIP() << "graphs' own memory is not simulated";
  }
  if (result == abi::CUDA_SUCCESS) {
    EXPECT_OK(CU(cuMemFreeAsync, pointer, stream.get()));
  }
  abi::CUgraph graph = nullptr;
  EXPECT_OK(CU(cuStreamEndCapture, stream.get(), &graph));
  std::size_t nodes = 0;
  if (graph) {
    EXPECT_OK(CU(cuGraphGetNodes, graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 2u);
    EXPECT_OK(CU(cuGraphDestroy, graph));
  }
}

TEST_F(Capture, TheLegacyStreamCannotBeCaptured) {
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              CU(cuStreamBeginCapture_v2, nullptr, abi::CU_STREAM_CAPTURE_MODE_GLOBAL));
  Stream stream;
  ASSERT_OK(CU(cuStreamBeginCapture_v2, stream.get(), abi::CU_STREAM_CAPTURE_MODE_GLOBAL));
  const auto twice = CU(cuStreamBeginCapture_v2, stream.get(), abi::CU_STREAM_CAPTURE_MODE_GLOBAL);
  Fact("capture.begin_twice", twice);
  EXPECT_NE(twice, abi::CUDA_SUCCESS);
  Fact("capture.end_after_begin_twice", End(stream.get()));
  Fact("capture.end_without_begin", End(stream.get()));
}

}  // namespace
}  // namespace gpuman::conformance
