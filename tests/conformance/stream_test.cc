// The order of work: streams, events, host functions, the two default streams.

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "conformance.h"

namespace gpuman::conformance {
namespace {

class Streams : public WithContext {};

constexpr std::uint64_t kLong = 300'000'000;  // nanoseconds of a kernel that still runs at the query

TEST_F(Streams, WorkIsAsynchronousAndInOrder) {
  Stream stream;
  DeviceMemory memory(kMiB);
  ASSERT_OK(Spin(module_, kLong, stream.get()));
  ASSERT_OK(CU(cuMemsetD8Async, memory.get(), static_cast<unsigned char>(7), kMiB, stream.get()));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuStreamQuery, stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_OK(CU(cuStreamQuery, stream.get()));
  unsigned char byte = 0;
  EXPECT_OK(CU(cuMemcpyDtoH_v2, &byte, memory.get() + kMiB - 1, std::size_t{1}));
  EXPECT_EQ(byte, 7);
}

// The shim uses these to tell whether two streams are the same, where a handle may belong to a new stream.
TEST_F(Streams, HaveNumbersThatAreNeverUsedAgain) {
  std::set<unsigned long long> numbers;
  for (int i = 0; i < 100; ++i) {
    Stream stream;
    unsigned long long number = 0, again = 0;
    ASSERT_OK(CU(cuStreamGetId, stream.get(), &number));
    ASSERT_OK(CU(cuStreamGetId, stream.get(), &again));
    EXPECT_EQ(number, again);
    EXPECT_TRUE(numbers.insert(number).second) << number;
  }
  Fact("stream.number", *numbers.rbegin());
}

// An event of a destroyed stream tells when its work is done, and other streams can wait for it.
TEST_F(Streams, AnEventOutlivesItsStream) {
  abi::CUevent event = nullptr;
  ASSERT_OK(CU(cuEventCreate, &event, unsigned{abi::CU_EVENT_DISABLE_TIMING}));
  Stream other;
  {
    Stream stream;
    ASSERT_OK(Spin(module_, kLong, stream.get()));
    ASSERT_OK(CU(cuEventRecord, event, stream.get()));
  }
  EXPECT_OK(CU(cuStreamWaitEvent, other.get(), event, 0u));
  EXPECT_OK(CU(cuStreamSynchronize, other.get()));
  EXPECT_OK(CU(cuEventQuery, event));
  EXPECT_OK(CU(cuEventDestroy_v2, event));
}

TEST_F(Streams, AnEventMarksAPlace) {
  Stream stream;
  abi::CUevent start = nullptr, end = nullptr, never = nullptr;
  ASSERT_OK(CU(cuEventCreate, &start, 0u));
  ASSERT_OK(CU(cuEventCreate, &end, 0u));
  ASSERT_OK(CU(cuEventCreate, &never, 0u));
  EXPECT_OK(CU(cuEventQuery, never)) << "an event that was not recorded counts as reached";
  ASSERT_OK(CU(cuEventRecord, start, stream.get()));
  ASSERT_OK(Spin(module_, kLong, stream.get()));
  ASSERT_OK(CU(cuEventRecord, end, stream.get()));
  float milliseconds = 0;
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuEventQuery, end));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuEventElapsedTime, &milliseconds, start, end));
  EXPECT_OK(CU(cuEventSynchronize, end));
  EXPECT_OK(CU(cuEventElapsedTime, &milliseconds, start, end));
  EXPECT_GE(milliseconds, 299.0f);
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, CU(cuEventElapsedTime, &milliseconds, start, never));
  for (auto* event : {start, end, never}) EXPECT_OK(CU(cuEventDestroy_v2, event));
}

TEST_F(Streams, AStreamWaitsForAnothersEvent) {
  Stream first, second;
  DeviceMemory memory(kMiB);
  abi::CUevent event = nullptr;
  ASSERT_OK(CU(cuEventCreate, &event, static_cast<unsigned>(abi::CU_EVENT_DISABLE_TIMING)));
  ASSERT_OK(Spin(module_, kLong, first.get()));
  ASSERT_OK(Fill(module_, memory.get(), kMiB, 1, first.get()));
  ASSERT_OK(CU(cuEventRecord, event, first.get()));
  ASSERT_OK(CU(cuStreamWaitEvent, second.get(), event, 0u));
  ASSERT_OK(AddOne(module_, memory.get(), kMiB, second.get()));
  EXPECT_OK(CU(cuStreamSynchronize, second.get()));
  EXPECT_OK(CU(cuStreamQuery, first.get()));
  EXPECT_EQ(Wrong(module_, memory.get(), kMiB, 1, 1), 0u);
  EXPECT_OK(CU(cuEventDestroy_v2, event));
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsOnly) {
  Stream blocking(abi::CU_STREAM_DEFAULT), free(abi::CU_STREAM_NON_BLOCKING);
  DeviceMemory memory(kMiB);
  ASSERT_OK(Spin(module_, kLong, blocking.get()));
  EXPECT_OK(CU(cuMemsetD8Async, memory.get(), static_cast<unsigned char>(1), kMiB, nullptr));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuStreamQuery, abi::CU_STREAM_LEGACY));
  EXPECT_OK(CU(cuStreamSynchronize, nullptr));
  EXPECT_OK(CU(cuStreamQuery, blocking.get()));
  ASSERT_OK(Spin(module_, 4 * kLong, free.get()));
  EXPECT_OK(CU(cuMemsetD8Async, memory.get(), static_cast<unsigned char>(2), kMiB, nullptr));
  EXPECT_OK(CU(cuStreamSynchronize, nullptr));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuStreamQuery, free.get()));
  EXPECT_OK(CU(cuStreamSynchronize, abi::CU_STREAM_PER_THREAD));
  EXPECT_OK(CU(cuCtxSynchronize));
  EXPECT_OK(CU(cuStreamQuery, free.get())) << "a context waits for all of its streams";
}

struct Order {
  std::atomic<int> next{0};
  std::atomic<int> seen{-1};
  abi::CUresult in_callback = kMissing;
};

TEST_F(Streams, AHostFunctionRunsInItsTurn) {
  Stream stream;
  Order order;
  ASSERT_OK(Spin(module_, kLong, stream.get()));
  ASSERT_OK(CU(
      cuLaunchHostFunc, stream.get(),
      [](void* data) {
        auto& o = *static_cast<Order*>(data);
        o.seen = o.next.fetch_add(1);
        abi::CUdeviceptr pointer = 0;
        o.in_callback = CU(cuMemAlloc_v2, &pointer, kMiB);
      },
      static_cast<void*>(&order)));
  EXPECT_EQ(order.next.load(), 0) << "the kernel still runs";
  ASSERT_OK(CU(
      cuLaunchHostFunc, stream.get(), [](void* data) { static_cast<Order*>(data)->next.fetch_add(10); },
      static_cast<void*>(&order)));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  EXPECT_EQ(order.next.load(), 11);
  EXPECT_EQ(order.seen.load(), 0);
  Fact("host_func.calls_cuda", order.in_callback);
  EXPECT_CUDA(CUDA_ERROR_NOT_PERMITTED, order.in_callback);
}

TEST_F(Streams, AsynchronousCopiesOfPinnedMemory) {
  Stream stream;
  DeviceMemory memory(4 * kMiB);
  void* host = nullptr;
  ASSERT_OK(CU(cuMemHostAlloc, &host, memory.size(), 0u));
  auto* words = static_cast<std::uint64_t*>(host);
  for (std::size_t i = 0; i < memory.size() / 8; ++i) words[i] = i;
  ASSERT_OK(CU(cuMemcpyHtoDAsync_v2, memory.get(), host, memory.size(), stream.get()));
  ASSERT_OK(AddOne(module_, memory.get(), memory.size(), stream.get()));
  ASSERT_OK(CU(cuMemcpyDtoHAsync_v2, host, memory.get(), memory.size(), stream.get()));
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < memory.size() / 8; ++i) wrong += words[i] != i + 1;
  EXPECT_EQ(wrong, 0u);
  EXPECT_OK(CU(cuMemFreeHost, host));
}

TEST_F(Streams, TellWhatTheyAre) {
  Stream stream;
  unsigned flags = 9;
  abi::CUcontext context = nullptr;
  int priority = 99, least = 99, greatest = 99;
  EXPECT_OK(CU(cuStreamGetFlags, stream.get(), &flags));
  EXPECT_EQ(flags, 1u);
  EXPECT_OK(CU(cuStreamGetCtx, stream.get(), &context));
  EXPECT_EQ(context, context_);
  EXPECT_OK(CU(cuStreamGetPriority, stream.get(), &priority));
  EXPECT_EQ(priority, 0);
  EXPECT_OK(CU(cuCtxGetStreamPriorityRange, &least, &greatest));
  EXPECT_EQ(least, 0);
  Fact("stream.greatest_priority", std::to_string(greatest));
}

TEST_F(Streams, ADestroyedStreamFinishesItsWork) {
  DeviceMemory memory(kMiB);
  {
    Stream stream;
    ASSERT_OK(Spin(module_, kLong, stream.get()));
    ASSERT_OK(Fill(module_, memory.get(), kMiB, 3, stream.get()));
  }
  EXPECT_OK(CU(cuCtxSynchronize));
  EXPECT_EQ(Wrong(module_, memory.get(), kMiB, 3), 0u);
}

TEST_F(Streams, FreeingWaitsForTheDevice) {
  Stream stream;
  abi::CUdeviceptr pointer = 0;
  ASSERT_OK(CU(cuMemAlloc_v2, &pointer, 4 * kMiB));
  ASSERT_OK(Spin(module_, kLong, stream.get()));
  ASSERT_OK(Fill(module_, pointer, 4 * kMiB, 1, stream.get()));
  EXPECT_OK(CU(cuMemFree_v2, pointer));
  EXPECT_OK(CU(cuStreamQuery, stream.get())) << "cuMemFree came back before the work was done";
  EXPECT_OK(CU(cuStreamSynchronize, stream.get()));
}

}  // namespace
}  // namespace gpuman::conformance
