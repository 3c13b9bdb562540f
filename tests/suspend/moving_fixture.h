// Memory of a process (this one, in the shim's place) that leaves the simulated device in parts and comes
// back within the granted room, with the real mover.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fixture.h"
#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"

namespace gpuman::suspend {

namespace abi = driver::abi;
namespace wire = ledger::wire;

inline constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;

class MovingTest : public CheckpointerFixture {
 protected:
  void SetUp() override {
    CheckpointerFixture::SetUp();
    auto loaded = driver::CudaDriver::Load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    cuda.emplace(*loaded);
    ASSERT_TRUE(cuda->Init());
    for (int device = 0; device < 2; ++device)
      Must(cuda->calls().cuDevicePrimaryCtxRetain(&contexts[device], device));
    Must(cuda->calls().cuCtxSetCurrent(contexts[0]));
    Must(cuda->calls().cuMemAddressReserve(&base, kMax * kPiece, 0, 0, 0));
  }
  static void Must(abi::CUresult result) { ASSERT_EQ(result, abi::CUDA_SUCCESS); }
  // Pieces from kOther on are memory of the second GPU.
  static constexpr std::size_t kOther = 64, kMax = 128;
  static int DeviceOf(std::size_t piece) { return piece < kOther ? 0 : 1; }
  void UseDeviceOf(std::size_t piece) { Must(cuda->calls().cuCtxSetCurrent(contexts[DeviceOf(piece)])); }

  // Byte j of page p of a piece is 7 * j + p + 31 * piece, modulo 256. 7 * 183 is 1, so that the page is a
  // part of the same ramp, which begins 183 * (p + 31 * piece) bytes later; a loop over all bytes takes most
  // of the test.
  std::vector<std::uint8_t> Pattern(std::size_t piece) const {
    constexpr std::size_t kPage = 4096;
    static const auto ramp = [] {
      std::array<std::uint8_t, kPage + 256> bytes{};
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
      return bytes;
    }();
    std::vector<std::uint8_t> bytes(kPiece);
    for (std::size_t page = 0; page < kPiece / kPage; ++page)
      std::memcpy(bytes.data() + page * kPage, ramp.data() + 183 * (page + 31 * piece) % 256, kPage);
    return bytes;
  }
  abi::CUdeviceptr At(std::size_t piece) const { return base + piece * kPiece; }
  void Map(std::size_t piece, abi::CUmemGenericAllocationHandle handle) {
    Must(cuda->calls().cuMemMap(At(piece), kPiece, 0, handle, 0));
    abi::CUmemAccessDesc access{};
    access.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, DeviceOf(piece)};
    access.flags = abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    Must(cuda->calls().cuMemSetAccess(At(piece), kPiece, &access, 1));
    handles[piece] = handle;
  }
  void Make(std::size_t pieces) { Make(0, pieces); }
  void Make(std::size_t from, std::size_t to) {
    abi::CUmemAllocationProp prop{};
    prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, DeviceOf(from)};
    UseDeviceOf(from);
    for (std::size_t i = from; i < to; ++i) {
      abi::CUmemGenericAllocationHandle handle = 0;
      Must(cuda->calls().cuMemCreate(&handle, kPiece, &prop, 0));
      Map(i, handle);
      Must(cuda->calls().cuMemcpyHtoD_v2(At(i), Pattern(i).data(), kPiece));
    }
  }

  void MakeEmpty(std::size_t from, std::size_t to) {
    Make(from, to);
    const std::vector<std::uint8_t> nothing(kPiece);
    for (std::size_t i = from; i < to; ++i)
      Must(cuda->calls().cuMemcpyHtoD_v2(At(i), nothing.data(), kPiece));
  }

  struct Moved {
    std::shared_ptr<Asked> asked = std::make_shared<Asked>();
    std::uint64_t bytes = 0;  // that notices reported
    std::map<std::string, std::uint64_t> by_gpu{};
    bool taken = false;
  };
  struct Pair {
    base::Fd ours, theirs;
  };
  static Pair Connect() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    return {base::Fd(pair[0]), base::Fd(pair[1])};
  }
  // `ours` receives the other end of the connection.
  std::shared_ptr<Moved> Begin(MoverRequest request, base::Fd* ours = nullptr) {
    if (ours == nullptr) return Begin(std::move(request), base::Fd());
    Pair pair = Connect();
    *ours = std::move(pair.ours);
    return Begin(std::move(request), std::move(pair.theirs));
  }
  std::shared_ptr<Moved> Begin(MoverRequest request, base::Fd theirs) {
    auto moved = std::make_shared<Moved>();
    request.process = base::SelfId();
    Get().Move(
        user, std::move(request), base::UntrustedSocket(std::move(theirs), std::make_shared<base::Closer>()),
        [moved](const MoverAnswer& answer) { moved->asked->answer = answer; },
        [moved](const MoverAnswer& notice) {
          moved->taken = moved->taken || notice.outcome == MoverOutcome::kTaken;
          if (notice.outcome != MoverOutcome::kMoving) return;
          moved->bytes += notice.bytes.count;
          moved->by_gpu[notice.gpu] += notice.bytes.count;
        });
    return moved;
  }

  void Offer(int socket, std::size_t from, std::size_t to) {
    std::vector<std::size_t> pieces;
    for (std::size_t i = from; i < to; ++i) pieces.push_back(i);
    OfferPieces(socket, pieces);
  }
  void OfferPieces(int socket, const std::vector<std::size_t>& pieces) {
    wire::TransferParts parts{wire::kPartsMagic, 0, 0, host.empty() ? 0u : 1u, pieces.size() * kPiece, {}};
    std::vector<base::Fd> files;
    for (const std::size_t i : pieces) {
      int file = -1;
      Must(cuda->calls().cuMemExportToShareableHandle(&file, handles.at(i),
                                                      abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      files.emplace_back(file);
      parts.part[parts.count++] = {At(i), kPiece};
      if (i != pieces.back() && parts.count < 5) continue;
      parts.last = i == pieces.back() ? 1 : 0;
      std::vector<int> numbers;
      numbers.reserve(files.size());
      for (const auto& one : files) numbers.push_back(one.get());
      ASSERT_TRUE(wire::SendWith(socket, &parts, sizeof parts, numbers.data(), parts.count, 60'000));
      files.clear();
      parts.count = 0;
    }
  }
  // Receives one message; runs the daemon's loop meanwhile.
  template <typename Message>
  ssize_t Await(int socket, Message& message, int* files, unsigned& count) {
    ssize_t got = -1;
    EXPECT_TRUE(Until([&] {
      if (got < 0) got = wire::ReceiveWith(socket, &message, sizeof message, files, count, 1);
      return got >= 0;
    }));
    return got;
  }
  // Receives host memory to keep. False: the mover refused.
  bool Keep(int socket) {
    for (;;) {
      wire::TransferReply reply{};
      int files[wire::kMaxParts];
      unsigned count = 0;
      const ssize_t got = Await(socket, reply, files, count);
      for (unsigned i = 0; i < count; ++i) host.emplace_back(files[i]);
      if (got != sizeof reply || reply.error != 0) return false;
      if (reply.last != 0) return true;
    }
  }
  void GiveUp(int socket, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      Must(cuda->calls().cuMemUnmap(At(i), kPiece));
      Must(cuda->calls().cuMemRelease(handles.at(i)));
      handles.erase(i);
    }
    Receipt(socket);
  }
  static void Receipt(int socket) {
    const wire::TransferReply receipt{wire::kReplyMagic, 0, 1, 0};
    ASSERT_TRUE(wire::SendWith(socket, &receipt, sizeof receipt, nullptr, 0, 60'000));
  }
  // Throws away what came back, since imported memory cannot be exported again.
  void FreeAll() {
    for (const auto& [piece, handle] : std::exchange(handles, {})) {
      Must(cuda->calls().cuMemUnmap(At(piece), kPiece));
      Must(cuda->calls().cuMemRelease(handle));
    }
  }
  // Hands out one batch, as the shim does.
  std::shared_ptr<Moved> HandOut(std::size_t from, std::size_t to) {
    base::Fd socket;
    auto moved = Begin({.verb = Verb::kTake, .whole = true}, &socket);
    Offer(socket.get(), from, to);
    EXPECT_TRUE(Keep(socket.get()));
    GiveUp(socket.get(), from, to);
    return moved;
  }
  // Maps the memory that comes. False: the mover refused; `error` receives its error.
  bool TakeBack(int socket, wire::OrderError* error = nullptr) {
    for (;;) {
      wire::TransferParts parts{};
      int files[wire::kMaxParts];
      unsigned count = 0;
      const ssize_t got = Await(socket, parts, files, count);
      if (got != sizeof parts) {
        wire::TransferReply reply{};
        std::memcpy(&reply, &parts, sizeof reply);
        if (error != nullptr && got == sizeof reply) *error = wire::OrderErrorOf(reply.error);
        return false;
      }
      for (unsigned i = 0; i < count; ++i) {
        abi::CUmemGenericAllocationHandle handle = 0;
        Must(cuda->calls().cuMemImportFromShareableHandle(
            &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(files[i])),
            abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        ::close(files[i]);
        Map((parts.part[i].address - base) / kPiece, handle);
      }
      if (parts.last == 0) continue;
      Receipt(socket);
      host.clear();
      return true;
    }
  }
  // Does not take the memory that comes: makes memory of its own instead, which the mover must fill.
  void MakeOwn(int socket, std::size_t pieces) {
    wire::TransferParts parts{};
    int files[wire::kMaxParts];
    unsigned count = 0;
    do {
      ASSERT_EQ(Await(socket, parts, files, count), ssize_t{sizeof parts});
      for (unsigned i = 0; i < count; ++i) ::close(files[i]);
    } while (parts.last == 0);
    const wire::TransferReply own{wire::kReplyMagic, 0, 0, 0};
    ASSERT_TRUE(wire::SendWith(socket, &own, sizeof own, nullptr, 0, 60'000));
    ASSERT_TRUE(Keep(socket)) << "it has dropped its own";
    MakeEmpty(0, pieces);
    Offer(socket, 0, pieces);
    ASSERT_TRUE(Keep(socket)) << "it is filled";
    Receipt(socket);
    host.clear();
  }
  void ExpectWhole(std::size_t pieces) { ExpectWhole(0, pieces); }
  void ExpectWhole(std::size_t from, std::size_t to) {
    UseDeviceOf(from);
    for (std::size_t i = from; i < to; ++i) {
      std::vector<std::uint8_t> bytes(kPiece);
      Must(cuda->calls().cuMemcpyDtoH_v2(bytes.data(), At(i), kPiece));
      EXPECT_EQ(bytes, Pattern(i)) << "piece " << i;
    }
  }

  std::optional<driver::CudaDriver> cuda;
  abi::CUcontext contexts[2] = {};
  abi::CUdeviceptr base = 0;
  std::map<std::size_t, abi::CUmemGenericAllocationHandle> handles;
  std::vector<base::Fd> host;
};

}  // namespace gpuman::suspend
