// Kernels of two processes that wait for each other, as those of a collective do: the kernels and messages of
// gpuman-load --ranks, between this process and a probe, through each kind of memory that both reach.
//
// The probe is on another device where there is one that this one reaches and that reaches this one.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "collective.h"
#include "conformance.h"
#include "probe.h"

namespace gpuman::conformance {
namespace {

using load::Collective;
using load::kBlockBytes;
using load::kBlockWords;
using load::kWindowBytes;
using load::Session;

constexpr const char* kVirtual = "descriptor";
constexpr const char* kLegacy = "ipc";
constexpr const char* kHost = "host";

// One side: its block, the sum that it makes, and the window that both sides share.
class Side {
 public:
  Side(int device, unsigned rank) : rank_(rank) {
    auto session = Session::Open(Cuda(), device, false);
    EXPECT_TRUE(session) << session.error().message;
    if (!session) return;
    session_ = std::move(*session);
    EXPECT_OK(CU(cuMemAlloc_v2, &memory_, 2 * kBlockBytes + sizeof(Counters)));
    const Counters counters;
    EXPECT_OK(CU(cuMemcpyHtoD_v2, counters_at(), &counters, sizeof counters));
    EXPECT_TRUE(session_->Fill({block(), kBlockWords, 1, kBlockBytes}, Collective::SeedOf(rank, 0)));
    EXPECT_TRUE(session_->Synchronize());
  }

  bool Connect(abi::CUdeviceptr window) {
    // Both ranks' windows are one: their parts have places of their own in it.
    const std::array<abi::CUdeviceptr, 2> windows{window, window};
    auto collective = Collective::Open(*session_, windows, rank_);
    EXPECT_TRUE(collective) << collective.error().message;
    if (collective) collective_ = std::move(*collective);
    return collective_ != nullptr;
  }

  Session& session() { return *session_; }
  bool ok() const { return session_ != nullptr; }
  bool Send() { return collective_->Send(session_->stream(), 0, Other(), block()).has_value(); }
  bool Take() { return collective_->Take(session_->stream(), 0, Other(), block(), sum()).has_value(); }
  bool Synchronize() { return session_->Synchronize().has_value(); }
  // Words of the last sum that are not what both blocks make.
  std::uint64_t Wrong() {
    Counters found;
    found.words = UINT64_MAX;
    if (!collective_->CheckSum(session_->stream(), sum(), 3, 0, counters_at(), counters_at() + 8) ||
        !Synchronize())
      return UINT64_MAX;
    EXPECT_OK(CU(cuMemcpyDtoH_v2, &found, counters_at(), sizeof found));
    return found.words;
  }

 private:
  struct Counters {
    std::uint64_t added = 0, words = 0, first = UINT64_MAX;
  };

  std::uint64_t Other() const { return rank_ == 0 ? 2 : 1; }
  abi::CUdeviceptr block() const { return memory_; }
  abi::CUdeviceptr sum() const { return memory_ + kBlockBytes; }
  abi::CUdeviceptr counters_at() const { return memory_ + 2 * kBlockBytes; }

  const unsigned rank_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Collective> collective_;
  abi::CUdeviceptr memory_ = 0;
};

abi::CUdeviceptr MapHandle(abi::CUmemGenericAllocationHandle handle, int device) {
  abi::CUdeviceptr address = 0;
  const std::size_t size = kWindowBytes;
  const abi::CUmemAccessDesc access{{abi::CU_MEM_LOCATION_TYPE_DEVICE, device},
                                    abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_OK(CU(cuMemAddressReserve, &address, size, std::size_t{0}, abi::CUdeviceptr{0}, 0ull));
  EXPECT_OK(CU(cuMemMap, address, size, std::size_t{0}, handle, 0ull));
  EXPECT_OK(CU(cuMemSetAccess, address, size, &access, std::size_t{1}));
  EXPECT_OK(CU(cuMemRelease, handle));
  return address;
}

abi::CUdeviceptr MapPages(int descriptor) {
  void* const pages = ::mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  EXPECT_NE(pages, MAP_FAILED);
  abi::CUdeviceptr address = 0;
  EXPECT_OK(CU(cuMemHostRegister_v2, pages, std::size_t{kWindowBytes},
               abi::CU_MEMHOSTREGISTER_PORTABLE | abi::CU_MEMHOSTREGISTER_DEVICEMAP));
  EXPECT_OK(CU(cuMemHostGetDevicePointer_v2, &address, pages, 0u));
  return address;
}

// The window of this process, and what the probe opens it with, as text. The descriptor in it is open in the
// probe as well.
struct Window {
  abi::CUdeviceptr address = 0;
  std::string opened_with;
};

Window MakeVirtual(int device) {
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, device};
  abi::CUmemGenericAllocationHandle handle = 0;
  EXPECT_OK(CU(cuMemCreate, &handle, std::size_t{kWindowBytes}, &prop, 0ull));
  int descriptor = -1;
  EXPECT_OK(CU(cuMemExportToShareableHandle, &descriptor, handle,
               abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull));
  EXPECT_EQ(::fcntl(descriptor, F_SETFD, 0), 0);
  return {MapHandle(handle, device), std::to_string(descriptor)};
}

Window MakeLegacy() {
  Window window;
  abi::CUipcMemHandle handle{};
  EXPECT_OK(CU(cuMemAlloc_v2, &window.address, std::size_t{kWindowBytes}));
  EXPECT_OK(CU(cuIpcGetMemHandle, &handle, window.address));
  std::array<unsigned char, sizeof handle> bytes;
  std::memcpy(bytes.data(), &handle, sizeof handle);
  for (const unsigned char byte : bytes) window.opened_with += std::to_string(byte) + ".";
  return window;
}

Window MakeHost() {
  const int descriptor = ::memfd_create("window", 0);
  EXPECT_EQ(::ftruncate(descriptor, kWindowBytes), 0);
  return {MapPages(descriptor), std::to_string(descriptor)};
}

void Drop(const std::string& how, const Window& window) {
  if (how == kLegacy) {
    EXPECT_OK(CU(cuMemFree_v2, window.address));
    return;
  }
  ::close(std::atoi(window.opened_with.c_str()));
  if (how == kHost) return;  // it is registered as long as the context lives
  EXPECT_OK(CU(cuMemUnmap, window.address, std::size_t{kWindowBytes}));
  EXPECT_OK(CU(cuMemAddressFree, window.address, std::size_t{kWindowBytes}));
}

abi::CUdeviceptr OpenWindow(const std::string& how, const std::string& with, int device) {
  if (how == kHost) return MapPages(std::atoi(with.c_str()));
  if (how == kVirtual) {
    abi::CUmemGenericAllocationHandle handle = 0;
    EXPECT_OK(CU(cuMemImportFromShareableHandle, &handle,
                 reinterpret_cast<void*>(static_cast<std::intptr_t>(std::atoi(with.c_str()))),
                 abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return MapHandle(handle, device);
  }
  std::array<unsigned char, sizeof(abi::CUipcMemHandle)> bytes{};
  const char* next = with.c_str();
  for (auto& byte : bytes) {
    char* end = nullptr;
    byte = static_cast<unsigned char>(std::strtoul(next, &end, 10));
    next = end + 1;
  }
  abi::CUipcMemHandle handle{};
  std::memcpy(&handle, bytes.data(), sizeof handle);
  abi::CUdeviceptr address = 0;
  EXPECT_OK(CU(cuIpcOpenMemHandle_v2, &address, handle, unsigned{abi::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS}));
  return address;
}

int DeviceOfTheProbe() {
  int count = 0, there = 0, back = 0;
  EXPECT_OK(CU(cuDeviceGetCount, &count));
  if (count < 2) return 0;
  EXPECT_OK(CU(cuDeviceCanAccessPeer, &there, 0, 1));
  EXPECT_OK(CU(cuDeviceCanAccessPeer, &back, 1, 0));
  return there != 0 && back != 0 ? 1 : 0;
}

bool HasRankKernels() {
  int major = 0;
  EXPECT_OK(CU(cuDeviceGetAttribute, &major, abi::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  return major >= 7;
}

// Does what it hears, and says what came of it.
PROBE(peer) {
  const int device = std::atoi(std::getenv("PEER_DEVICE"));
  Side side(device, 1);
  if (!side.ok() || !side.Connect(OpenWindow(std::getenv("PEER_HOW"), std::getenv("PEER_WITH"), device)))
    return;
  Say("opened", testing::Test::HasFailure() ? "no" : "yes");
  for (unsigned number = 1;; ++number) {
    const std::string order = Hear();
    if (order.empty()) break;
    const bool done = (order == "take" ? side.Take() : side.Send()) && side.Synchronize();
    const bool right = order != "take" || side.Wrong() == 0;
    Say(order + std::to_string(number), !done ? "failed" : right ? "right" : "wrong");
  }
}

void Meet(const std::string& how) {
  ASSERT_OK(CU(cuInit, 0u));
  if (!HasRankKernels()) GTEST_SKIP() << "the kernels need a GPU since Volta";
  Side side(0, 0);
  ASSERT_TRUE(side.ok());
  const Window window = how == kVirtual ? MakeVirtual(0) : how == kLegacy ? MakeLegacy() : MakeHost();
  EXPECT_OK(CU(cuMemsetD8_v2, window.address, static_cast<unsigned char>(0), std::size_t{kWindowBytes}));
  ASSERT_OK(CU(cuCtxSynchronize));
  ASSERT_TRUE(side.Connect(window.address));
  const int device = DeviceOfTheProbe();
  Probe probe(
      "peer",
      {{"PEER_DEVICE", std::to_string(device)}, {"PEER_HOW", how}, {"PEER_WITH", window.opened_with}});
  ASSERT_EQ(probe.Heard("opened"), "yes") << "on device " << device;

  // Nobody waits yet: a driver that loads a kernel at its first launch might wait for those that run.
  probe.Tell("send");
  ASSERT_EQ(probe.Heard("send1"), "right");
  ASSERT_TRUE(side.Take() && side.Synchronize());
  EXPECT_EQ(side.Wrong(), 0u);
  ASSERT_TRUE(side.Send() && side.Synchronize());
  probe.Tell("take");
  ASSERT_EQ(probe.Heard("take2"), "right");
  Stream other;
  DeviceMemory scratch(kMiB);
  const load::Region words{scratch.get(), kMiB / 8, 1, kMiB};
  ASSERT_OK(CU(cuMemsetD8Async, words.base, static_cast<unsigned char>(1), kMiB, other.get()));
  ASSERT_OK(CU(cuStreamSynchronize, other.get()));

  for (unsigned round = 0; round < 20; ++round) {
    ASSERT_TRUE(side.Take());  // waits for what no process has sent yet
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuStreamQuery, side.session().stream()));
    EXPECT_OK(CU(cuMemsetD8Async, words.base, static_cast<unsigned char>(round), kMiB, other.get()));
    EXPECT_OK(CU(cuStreamSynchronize, other.get())) << "other streams work meanwhile";
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, CU(cuStreamQuery, side.session().stream()));
    probe.Tell("send");
    ASSERT_TRUE(side.Synchronize());
    EXPECT_EQ(side.Wrong(), 0u);
    EXPECT_EQ(probe.Heard("send" + std::to_string(3 + 2 * round)), "right");

    probe.Tell("take");  // before the message is there, or after it: both must do
    ASSERT_TRUE(side.Send() && side.Synchronize());
    EXPECT_EQ(probe.Heard("take" + std::to_string(4 + 2 * round)), "right");
  }
  EXPECT_EQ(probe.Wait(), 0);
  Drop(how, window);
}

TEST(Peers, KernelsMeetThroughADescriptorOfVirtualMemory) { Meet(kVirtual); }
TEST(Peers, KernelsMeetThroughLegacyIpc) { Meet(kLegacy); }
TEST(Peers, KernelsMeetThroughPagesOfTheHost) { Meet(kHost); }

// Contexts of one process on the first two devices, the first one current. Skips where one cannot reach the
// other's memory.
class TwoDevices : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(CU(cuInit, 0u));
    if (DeviceOfTheProbe() == 0) GTEST_SKIP() << "it needs two devices that reach each other's memory";
    for (int device = 1; device >= 0; --device) {
      abi::CUcontext& context = contexts_.at(static_cast<std::size_t>(device));
      ASSERT_OK(CU(cuDevicePrimaryCtxRetain, &context, device));
      ASSERT_OK(CU(cuCtxSetCurrent, context));
    }
    held_ = 2;
  }
  void TearDown() override {
    for (int device = 0; device < held_; ++device) EXPECT_OK(CU(cuDevicePrimaryCtxRelease_v2, device));
  }

  // Returns what the first context reads there.
  static std::vector<std::uint8_t> Read(abi::CUdeviceptr address, std::size_t bytes) {
    std::vector<std::uint8_t> read(bytes);
    abi::CUdeviceptr here = 0;
    EXPECT_OK(CU(cuMemAlloc_v2, &here, bytes));
    EXPECT_OK(CU(cuMemcpyDtoD_v2, here, address, bytes));
    EXPECT_OK(CU(cuMemcpyDtoH_v2, read.data(), here, bytes));
    EXPECT_OK(CU(cuMemFree_v2, here));
    return read;
  }
  static void Fill(abi::CUdeviceptr address, unsigned char value) {
    EXPECT_OK(CU(cuMemsetD8_v2, address, value, kMiB));
    EXPECT_OK(CU(cuCtxSynchronize));
  }

  std::array<abi::CUcontext, 2> contexts_{};
  int held_ = 0;
};

using PeersOfOneProcess = TwoDevices;

TEST_F(PeersOfOneProcess, ReachEachOthersMemoryOnceThatIsEnabled) {
  abi::CUdeviceptr there = 0;
  ASSERT_OK(CU(cuCtxSetCurrent, contexts_[1]));
  ASSERT_OK(CU(cuMemAlloc_v2, &there, kMiB));
  Fill(there, 5);
  ASSERT_OK(CU(cuCtxSetCurrent, contexts_[0]));
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, CU(cuCtxDisablePeerAccess, contexts_[1]));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, CU(cuCtxEnablePeerAccess, contexts_[1], 1u));
  EXPECT_OK(CU(cuCtxEnablePeerAccess, contexts_[1], 0u));
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, CU(cuCtxEnablePeerAccess, contexts_[1], 0u));
  EXPECT_EQ(Read(there, kMiB), std::vector<std::uint8_t>(kMiB, 5));
  Fill(there, 6);
  EXPECT_EQ(Read(there, kMiB), std::vector<std::uint8_t>(kMiB, 6)) << "and writes it";
  EXPECT_OK(CU(cuCtxDisablePeerAccess, contexts_[1]));
  ASSERT_OK(CU(cuCtxSetCurrent, contexts_[1]));
  EXPECT_OK(CU(cuMemFree_v2, there));
}

TEST_F(PeersOfOneProcess, ReachVirtualMemoryToWhichTheyHaveAccess) {
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 1};
  abi::CUmemGenericAllocationHandle handle = 0;
  ASSERT_OK(CU(cuMemCreate, &handle, std::size_t{kWindowBytes}, &prop, 0ull));
  const abi::CUdeviceptr address = MapHandle(handle, /*device=*/0);
  Fill(address, 7);
  EXPECT_EQ(Read(address, kMiB), std::vector<std::uint8_t>(kMiB, 7));
  for (int device = 0; device < 2; ++device) {
    unsigned long long access = 0;
    const abi::CUmemLocation where{abi::CU_MEM_LOCATION_TYPE_DEVICE, device};
    EXPECT_OK(CU(cuMemGetAccess, &access, &where, address));
    EXPECT_EQ(access, device == 0 ? 3u : 0u) << "the device that has the memory has no access by itself";
  }
  EXPECT_OK(CU(cuMemUnmap, address, std::size_t{kWindowBytes}));
  EXPECT_OK(CU(cuMemAddressFree, address, std::size_t{kWindowBytes}));
}

}  // namespace
}  // namespace gpuman::conformance
