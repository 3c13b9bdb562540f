#include "shim/gate/stream_gates.h"

#include <cstddef>

#include "ledger/wire/orders.h"
#include "shim/gate/streams.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/libc/wiped_memory.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr std::uint32_t kLongestPaceUs = 1'000'000;  // a program may overwrite its ledger
// How far marks pass an open gate. The service thread moves that on long before the program has made so many
// launches.
constexpr std::uint32_t kAhead = std::uint32_t{1} << 30;
// A launch of 20 us is one of many: then marks are further apart, for they cost the program and the GPU about
// a microsecond each.
constexpr std::uint32_t kMaxStride = 16;
constexpr std::uint64_t kShortestLook = 2'000'000;  // ns, between two looks at the pace of the work

// Whether number a comes after b.
bool IsAfter(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

// Returns the gate of the stream; null: there are no more.
StreamGate* FindGate(StreamGates& gates, std::uint64_t key, unsigned& index) {
  const auto find = [&]() -> StreamGate* {
    const std::uint32_t used = wire::Load(gates.used);
    for (index = 0; index < used; ++index)
      if (gates.gate[index].key == key) return &gates.gate[index];
    return nullptr;
  };
  if (StreamGate* const gate = find()) return gate;
  const Locked lock(gates.registry);
  if (StreamGate* const gate = find()) return gate;
  if (index == StreamGates::kMaxStreams) return nullptr;
  wire::Store(gates.words[index].open, kAhead);
  gates.gate[index].key = key;
  wire::Store(gates.used, index + 1);
  return &gates.gate[index];
}

CUresult PutMark(const StreamGates& gates, unsigned index, std::uint32_t number, CUstream stream) {
  auto* const put = GPUMAN_REAL(cuStreamBatchMemOp_v2);
  if (put == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUdeviceptr words = gates.address + index * sizeof(StreamGateWords);
  CUstreamBatchMemOpParams operation[2] = {};
  operation[0].waitValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation[0].waitValue.address = words + offsetof(StreamGateWords, reached);
  operation[0].waitValue.value64 = number;
  operation[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation[1].waitValue.address = words + offsetof(StreamGateWords, open);
  operation[1].waitValue.value64 = number;
  operation[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return put(stream, 2, operation, 0);
}

// Registers the words with the driver. Returns false where that cannot be done now.
bool MakeWords(GateState& state) {
  StreamGates& gates = state.stream_gates;
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  auto* const add = GPUMAN_REAL(cuMemHostRegister_v2);
  auto* const address_of = GPUMAN_REAL(cuMemHostGetDevicePointer_v2);
  constexpr std::size_t kBytes = StreamGates::kMaxStreams * sizeof(StreamGateWords);
  if (push == nullptr || pop == nullptr || add == nullptr || address_of == nullptr ||
      GPUMAN_REAL(cuStreamBatchMemOp_v2) == nullptr) {
    wire::Store(gates.failed, 1);
    return false;
  }
  const Locked lock(state.contexts);
  const Locked no_capture(state.capturing);  // it would spoil a capture
  if (wire::Load(state.captures) != 0) return false;
  void* const words = MapWiped(kBytes);
  bool tried = false, made = false;
  state.context.ForEach([&](std::uint64_t context, const Context&) {
    if (tried || words == nullptr) return;
    if (push(reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context))) != CUDA_SUCCESS) return;
    tried = true;
    made = add(words, kBytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS &&
           address_of(&gates.address, words, 0) == CUDA_SUCCESS;
    CUcontext ignored = nullptr;
    pop(&ignored);
  });
  if (made) {
    gates.words = static_cast<StreamGateWords*>(words);
  } else {
    if (words != nullptr) UnmapWiped(words, kBytes);
    if (tried) wire::Store(gates.failed, 1);
  }
  return made;
}

// The marks are to be as far apart as work of about a tenth of the pace.
void AdaptStride(GateState& state, std::uint64_t now) {
  StreamGates& gates = state.stream_gates;
  const std::uint64_t pace = std::uint64_t{wire::Load(state.ledger->pace_us)} * 1'000;
  const std::uint64_t passed = now - gates.looked;
  if (passed < kShortestLook) return;
  std::uint32_t most = 0;
  bool waits = false;  // the GPU has had more work than it could do all the time
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i) {
    StreamGate& gate = gates.gate[i];
    const std::uint32_t reached = wire::Load(gates.words[i].reached);
    const bool waited = IsAfter(wire::Load(gate.marks), reached);
    const std::uint32_t marks = reached - gate.seen;
    if (marks > most) {
      most = marks;
      waits = waited && gate.waited;
    }
    gate.seen = reached;
    gate.waited = waited;
  }
  gates.looked = now;
  if (most == 0) return;
  const std::uint64_t each = passed / most;
  const std::uint32_t stride = wire::Load(gates.stride);
  // Where the GPU waits for the program, little is in flight however far apart the marks are.
  if ((!waits || each < pace / 16) && stride < kMaxStride)
    wire::Store(gates.stride, stride * 2);
  else if (waits && each > pace / 4 && stride > 1)
    wire::Store(gates.stride, stride / 2);
}

void LetPass(StreamGates& gates) {
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i)
    wire::Store(gates.words[i].open, wire::Load(gates.gate[i].marks) + kAhead);
}

}  // namespace

void BeforeLaunch(GateState& state, CUstream stream) {
  StreamGates& gates = state.stream_gates;
  if (wire::Load(gates.in_use) == 0 || wire::Load(gates.failed) != 0 || wire::Load(state.captures) != 0 ||
      IsCapturing(stream))
    return;
  auto* const current = GPUMAN_REAL(cuCtxGetCurrent);
  CUcontext context = nullptr;
  if (current == nullptr || current(&context) != CUDA_SUCCESS || context == nullptr) return;
  unsigned index = 0;
  StreamGate* const gate =
      FindGate(gates, KeyOf(reinterpret_cast<std::uintptr_t>(context), stream).number, index);
  if (gate == nullptr) return;
  const Locked lock(gate->mutex);
  if (++gate->launches < wire::Load(gates.stride)) return;
  gate->launches = 0;
  // The number is there before the GPU can come to it.
  const std::uint32_t number = wire::Load(gate->marks) + 1;
  wire::Store(gate->marks, number);
  if (PutMark(gates, index, number, stream) != CUDA_SUCCESS) wire::Store(gates.failed, 1);
}

bool IsPaced(const GateState& state) {
  const std::uint32_t pace = wire::Load(state.ledger->pace_us);
  return pace != 0 && pace <= kLongestPaceUs && wire::Load(state.stream_gates.failed) == 0;
}

void UseStreamGates(GateState& state) {
  StreamGates& gates = state.stream_gates;
  if (gates.words == nullptr && !MakeWords(state)) return;
  LetPass(gates);
  const std::uint64_t now = NowNs();
  if (wire::Load(gates.in_use) != 0) return AdaptStride(state, now);
  wire::Store(gates.stride, 1);
  gates.looked = now;
  wire::Store(gates.in_use, 1);
  LookAtEachCall(state.gate, true);
}

void EndStreamGates(GateState& state) {
  StreamGates& gates = state.stream_gates;
  if (wire::Load(gates.in_use) == 0) return;
  wire::Store(gates.in_use, 0);
  LookAtEachCall(state.gate, false);
  LetPass(gates);
}

void CloseStreams(GateState& state) {
  StreamGates& gates = state.stream_gates;
  gates.closed = true;
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i)
    wire::Store(gates.words[i].open, wire::Load(gates.words[i].reached));
}

void OpenStreams(GateState& state) {
  state.stream_gates.closed = false;
  LetPass(state.stream_gates);
}

StreamsAtRest AreStreamsAtRest(const GateState& state) {
  const StreamGates& gates = state.stream_gates;
  bool any = false;
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i) {
    const std::uint32_t open = wire::Load(gates.words[i].open);
    if (!IsAfter(wire::Load(gates.gate[i].marks), open)) continue;
    any = true;
    if (!IsAfter(wire::Load(gates.words[i].reached), open)) return StreamsAtRest::kNo;
  }
  return any ? StreamsAtRest::kYes : StreamsAtRest::kNoMarks;
}

}  // namespace gpuman::shim
