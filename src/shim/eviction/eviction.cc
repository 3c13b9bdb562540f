#include "shim/eviction/eviction.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "ledger/wire/slot_balance.h"
#include "ledger/wire/transfer.h"
#include "shim/backing/backing.h"
#include "shim/eviction/moves.h"
#include "shim/eviction/some_context.h"
#include "shim/libc/lock.h"
#include "shim/link/join.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names
using wire::OrderError;

// The mover may have to find host memory first, or to copy. When the mover ends, the wait ends at once.
constexpr int kMoverMs = 110'000;
constexpr int kConnectMs = 2'000;
// Parts of one message: the mover copies them while the shim exports the next ones.
constexpr unsigned kPartsPerMessage = 4;

constexpr EvictionResult Failed(CUresult result) { return {OrderError::kDriver, result}; }

// The connection to the mover. The mover sees its end also where a child of a fork has the descriptor.
class Connection {
 public:
  explicit Connection(std::uint32_t magic) : socket_(CallDaemon(magic, kConnectMs)) {}
  ~Connection() {
    if (socket_ < 0) return;
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  int get() const { return socket_; }

  bool Send(const wire::TransferParts& parts, const int* descriptors) const {
    return wire::SendWith(socket_, &parts, sizeof parts, descriptors, parts.count, kMoverMs);
  }
  void Receipt(const EvictionResult& ended) const {
    const wire::TransferReply reply{wire::kReplyMagic, 0, 1,
                                    wire::PackError(ended.error, static_cast<std::uint32_t>(ended.driver))};
    (void)wire::SendWith(socket_, &reply, sizeof reply, nullptr, 0, 0);
  }

 private:
  int socket_;
};

// One message of the mover, with its descriptors. The descriptors that were not taken are closed.
struct Message {
  Message() = default;
  ~Message() {
    for (unsigned i = 0; i < count; ++i) {
      if (descriptor[i] >= 0) ::close(descriptor[i]);
    }
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // Returns false where the mover has closed, or where its message makes no sense.
  bool Receive(int socket) {
    const ssize_t got = wire::ReceiveWith(socket, &parts, sizeof parts, descriptor, count, kMoverMs);
    if (got == sizeof(wire::TransferReply)) {
      __builtin_memcpy(&reply, &parts, sizeof reply);
      return reply.magic == wire::kReplyMagic && (reply.error != 0 || reply.count == count);
    }
    reply = {};
    return got == sizeof parts && parts.magic == wire::kPartsMagic && parts.count == count;
  }
  int Take(unsigned i) {
    const int taken = descriptor[i];
    descriptor[i] = -1;
    return taken;
  }

  wire::TransferParts parts{};
  wire::TransferReply reply{};
  unsigned count = 0;
  int descriptor[wire::kMaxParts];
};

EvictionResult Refused(const wire::TransferReply& reply) {
  return {wire::OrderErrorOf(reply.error), static_cast<CUresult>(wire::DriverErrorOf(reply.error))};
}

// This error tells the daemon that the process is ending.
constexpr EvictionResult AtItsEnd() { return Failed(CUDA_ERROR_DEINITIALIZED); }

bool ReceiveAtRest(EvictionState& state, const Connection& mover, Message& message) {
  const ServiceThreadIdleScope attempt(state.service_thread);
  return message.Receive(mover.get());
}

// Receives on the way back, where the shim calls the driver next.
bool ReceiveBack(EvictionState& state, const Connection& mover, Message& message) {
  const bool received = ReceiveAtRest(state, mover, message);
  AwaitNeed(state);
  return received;
}

// Sends the pieces with this mark on the device, or on all devices: `total` bytes. A message has pieces of
// one device only.
EvictionResult Offer(EvictionState& state, const Connection& mover, PieceBacking::Mark mark, int device,
                     std::uint64_t total) {
  wire::TransferParts parts{wire::kPartsMagic, 0, 0, BytesAway(state) != 0 ? 1u : 0u, total, {}};
  int descriptors[wire::kMaxParts];
  int of = device;  // the device of the pieces in `parts`
  EvictionResult ended{};
  const auto send = [&] {
    const bool sent = mover.Send(parts, descriptors);
    for (unsigned i = 0; i < parts.count; ++i) ::close(descriptors[i]);
    parts.count = 0;
    if (!sent) ended = {OrderError::kNoMover};
    return sent;
  };
  const bool all = ForEachMarked(state, mark, [&](const Piece& piece) {
    if (device != kAllDevices && piece.device != device) return true;
    if (parts.count != 0 && piece.device != of && !send()) return false;
    of = piece.device;
    if (mark == PieceBacking::kGoing && IsEnding(state)) {
      ended = AtItsEnd();
      return false;
    }
    const int descriptor = DescriptorOf(state, piece, ended.driver);
    if (descriptor < 0 && ended.driver != CUDA_SUCCESS) {
      ended.error = OrderError::kDriver;
      return false;
    }
    if (descriptor < 0) return true;  // the piece stays on the device
    descriptors[parts.count] = descriptor;
    parts.part[parts.count++] = {piece.address, piece.bytes};
    return parts.count < kPartsPerMessage || send();
  });
  if (!all) {
    for (unsigned i = 0; i < parts.count; ++i) ::close(descriptors[i]);
    return ended;
  }
  parts.last = 1;
  send();
  return ended;
}

void DiscardSegments(EvictionState& state, unsigned first) {
  while (state.segments > first) CloseDescriptor(state.descriptor_store, state.segment[--state.segments]);
}

// Receives the host memory that the mover copies the data to.
EvictionResult AwaitHostMemory(EvictionState& state, const Connection& mover) {
  for (;;) {
    Message message;
    if (!ReceiveAtRest(state, mover, message) || message.reply.magic == 0) return {OrderError::kNoMover};
    if (message.reply.error != 0) return Refused(message.reply);
    for (unsigned i = 0; i < message.count; ++i) {
      const int number =
          state.segments < wire::kMaxSegments ? PutDescriptor(state.descriptor_store, message.Take(i)) : -1;
      if (number < 0) return {OrderError::kDescriptors};
      state.segment[state.segments++] = number;
    }
    if (message.reply.last != 0) return {};
  }
}

// Maps the parts of a message at their addresses.
CUresult Map(EvictionState& state, Message& message) {
  for (unsigned i = 0; i < message.parts.count && i < wire::kMaxParts; ++i) {
    const CUresult result =
        AdoptPiece(state, message.parts.part[i].address, message.parts.part[i].bytes, message.Take(i));
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

EvictionResult AwaitDone(EvictionState& state, const Connection& mover) {
  Message message;
  if (!ReceiveBack(state, mover, message) || message.reply.magic == 0) return {OrderError::kNoMover};
  return message.reply.error != 0 ? Refused(message.reply) : EvictionResult{};
}

// A process that the driver restored on another GPU than it began on cannot import memory there (measured).
constexpr CUresult kNotHere = CUDA_ERROR_NOT_INITIALIZED;

// Maps the memory that the mover sends. `result`: what the driver answered. Where that is kNotHere, the shim
// has received all messages, so that the mover listens again.
EvictionResult Adopt(EvictionState& state, const Connection& mover, CUresult& result) {
  for (bool last = false; !last;) {
    Message message;
    if (!ReceiveBack(state, mover, message)) return {OrderError::kNoMover};
    if (message.reply.magic != 0)
      return message.reply.error != 0 ? Refused(message.reply) : EvictionResult{OrderError::kNoMover};
    if (message.parts.more != 0) result = kNotHere;
    if (result == CUDA_SUCCESS) result = Map(state, message);
    if (result != CUDA_SUCCESS && result != kNotHere) return {};
    last = message.parts.last != 0;
  }
  if (result == CUDA_SUCCESS) result = GiveAccessToFresh(state);
  return {};
}

// Makes memory of the process's own, which the mover fills.
EvictionResult MakeOwn(EvictionState& state, const Connection& mover) {
  UnmapMarked(state, PieceBacking::kFresh, kAllDevices);
  const wire::TransferReply own{wire::kReplyMagic, 0, 0, 0};
  if (!wire::SendWith(mover.get(), &own, sizeof own, nullptr, 0, kMoverMs)) return {OrderError::kNoMover};
  EvictionResult ended = AwaitDone(state, mover);  // the mover has given up the memory that it made
  for (std::size_t i = 0; i < state.regions.size() && ended.ok(); ++i) {
    const CUresult result = MapRegion(state, state.regions.at(i), PieceBacking::kFresh);
    if (result != CUDA_SUCCESS) ended = Failed(result);
  }
  if (ended.ok()) ended = Offer(state, mover, PieceBacking::kFresh, kAllDevices, BytesAway(state));
  return ended.ok() ? AwaitDone(state, mover) : ended;
}

EvictionResult Receive(EvictionState& state) {
  const Connection mover(wire::kBackMagic);
  if (mover.get() < 0) return {OrderError::kNoMover};
  CUresult result = CUDA_SUCCESS;
  EvictionResult ended = Adopt(state, mover, result);
  if (!ended.ok()) return ended;
  if (result == kNotHere)
    ended = MakeOwn(state, mover);
  else if (result != CUDA_SUCCESS)
    ended = Failed(result);
  mover.Receipt(ended);
  return ended;
}

// Returns the first error that the driver tells of a context: of the current one, and then of the others,
// where one that has ended is no error. No context can be destroyed meanwhile (InSomeContext).
CUresult Health(EvictionState& state) {
  auto* const synchronize = GPUMAN_REAL(cuCtxSynchronize);
  CUresult health = synchronize == nullptr ? CUDA_ERROR_NOT_INITIALIZED : synchronize();
  state.context.ForEach([&](std::uint64_t context, const Context&) {
    const CUresult its = health == CUDA_SUCCESS ? SynchronizeContext(context) : CUDA_SUCCESS;
    if (its != CUDA_SUCCESS && its != CUDA_ERROR_INVALID_CONTEXT && its != CUDA_ERROR_CONTEXT_IS_DESTROYED)
      health = its;
  });
  return health;
}

// Counts, in the ledger, the host memory that holds evicted data, within the job's budget.
wire::ChargeOutcome Count(EvictionState& state, std::uint64_t bytes) {
  const Locked lock(state.meter);
  return wire::Reserve(*state.ledger, wire::kHost, state.slot, bytes);
}

void Uncount(EvictionState& state, std::uint64_t bytes) {
  const Locked lock(state.meter);
  wire::GiveBack(*state.ledger, wire::kHost, state.slot, bytes);
}

void UncountAll(EvictionState& state) {
  const Locked lock(state.meter);
  wire::GiveBack(*state.ledger, wire::kHost, state.slot,
                 wire::BytesOf(*state.ledger, wire::kHost, state.slot));
}

// Hands out the marked pieces, by one connection for each device. The mover copies the memory of all these
// devices at the same time. No device gives up memory before there is host memory for all.
EvictionResult HandOutMarked(EvictionState& state, const BytesToEvict& marked) {
  const InSomeContext context(state);
  if (!context) return Failed(CUDA_ERROR_INVALID_CONTEXT);
  LearnAccess(state);
  const unsigned segments = state.segments;
  std::optional<Connection> movers[kMaxDevices];
  const auto for_each = [&](auto act) {
    EvictionResult ended{};
    for (int device = 0; device < kMaxDevices && ended.ok(); ++device) {
      if (marked.bytes[device] != 0) ended = act(device, movers[device]);
    }
    return ended;
  };
  EvictionResult ended = for_each([&](int device, std::optional<Connection>& mover) {
    mover.emplace(wire::kOutMagic);
    if (mover->get() < 0) return EvictionResult{OrderError::kNoMover};
    return Offer(state, *mover, PieceBacking::kGoing, device, marked.bytes[device]);
  });
  if (ended.ok())
    ended =
        for_each([&](int, const std::optional<Connection>& mover) { return AwaitHostMemory(state, *mover); });
  if (ended.ok() && IsEnding(state)) ended = AtItsEnd();
  if (!ended.ok()) {
    DiscardSegments(state, segments);
    return ended;
  }
  return for_each([&](int device, const std::optional<Connection>& mover) {
    const std::uint64_t gone = UnmapMarked(state, PieceBacking::kGoing, device);
    {
      const Locked lock(state.books);
      state.away[device] += gone;
    }
    mover->Receipt({});
    return EvictionResult{};
  });
}

EvictionResult ResultOf(QuiesceResult rested, CUresult result) {
  switch (rested) {
    case QuiesceResult::kYes:
      break;
    case QuiesceResult::kBusy:
      return {OrderError::kBusy, CUDA_SUCCESS};
    case QuiesceResult::kCapturing:
      return {OrderError::kCapturing, CUDA_SUCCESS};
    case QuiesceResult::kFailed:
      return Failed(result);
  }
  return {};
}

}  // namespace

std::uint64_t BytesAway(EvictionState& state) {
  const Locked lock(state.books);
  std::uint64_t bytes = 0;
  for (const std::uint64_t away : state.away) bytes += away;
  return bytes;
}

std::uint64_t BytesAwayFrom(EvictionState& state, int device) {
  const Locked lock(state.books);
  return state.away[device];
}

EvictionResult Shut(EvictionState& state, const RestLimit& limit, bool was_at_rest) {
  CUresult result = CUDA_SUCCESS;
  return ResultOf(ComeToRest(state, limit, was_at_rest, result), result);
}

EvictionResult ShutStreams(EvictionState& state, const RestLimit& limit) {
  CUresult result = CUDA_SUCCESS;
  return ResultOf(ComeToRestInStreams(state, limit, result), result);
}

EvictionResult HandOut(EvictionState& state, const BytesToEvict& leaving) {
  BytesToEvict marked{};
  std::uint64_t bytes = 0;
  ForEachHome(state, [&](int device) {
    if (leaving.bytes[device] == 0 || BytesEvictable(state, device) == 0) return;
    marked.bytes[device] = MarkGoing(state, device, leaving.bytes[device]);
    bytes += marked.bytes[device];
  });
  if (bytes == 0) return {};
  EvictionResult ended{OrderError::kBudget};
  if (IsEnding(state)) {
    ended = AtItsEnd();
  } else if (Count(state, bytes) != wire::ChargeOutcome::kRefused) {
    ended = HandOutMarked(state, marked);
    if (!ended.ok()) Uncount(state, bytes);
  }
  UnmarkAll(state);
  return ended;
}

EvictionResult FetchBack(EvictionState& state) {
  if (state.segments != 0) {
    AwaitNeed(state);
    const InSomeContext context(state);
    // No context: the program is ending. The CUDA runtime destroys its context by calls that pass no gate.
    if (!context) return {OrderError::kDriver, CUDA_ERROR_INVALID_CONTEXT, true};
    EvictionResult ended = Receive(state);
    const bool other = !ended.ok() && ended.driver != CUDA_ERROR_OUT_OF_MEMORY;
    if (const CUresult health = other ? Health(state) : CUDA_SUCCESS; health != CUDA_SUCCESS)
      return {OrderError::kDriver, health, true};
    if (!ended.ok()) {
      UnmapMarked(state, PieceBacking::kFresh, kAllDevices);
      return ended.driver == CUDA_ERROR_OUT_OF_MEMORY ? EvictionResult{OrderError::kNoRoom, ended.driver}
                                                      : ended;
    }
    FinishAdoption(state);
    DiscardSegments(state, 0);
    const Locked lock(state.books);
    for (std::uint64_t& away : state.away) away = 0;
  }
  UncountAll(state);
  return {};
}

}  // namespace gpuman::shim
