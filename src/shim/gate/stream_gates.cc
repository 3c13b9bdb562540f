#include "shim/gate/stream_gates.h"

#include <cstddef>

#include "ledger/wire/orders.h"
#include "shim/gate/mark_stride.h"
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
constexpr std::uint64_t kMinSampleTime = 2'000'000;  // ns, between two samples of the pace of the work
// A stream that has got no mark for so many samples gives up its gate: the program may have destroyed it.
constexpr std::uint32_t kMaxQuietSamples = 500;

// Whether number a comes after b.
bool IsAfter(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }

std::uint64_t LoadWide(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
void StoreWide(std::uint64_t& word, std::uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }

// Returns the gate of the stream; null: there are no more.
StreamGate* FindGate(StreamGates& gates, std::uint64_t key) {
  bool room = false;
  const auto find = [&](std::uint64_t wanted) -> StreamGate* {
    const std::uint32_t used = wire::Load(gates.used);
    room = used < StreamGates::kMaxStreams;
    for (unsigned i = 0; i < used; ++i) {
      const std::uint64_t its = LoadWide(gates.gate[i].key);
      if (its == wanted) return &gates.gate[i];
      room = room || its == 0;
    }
    return nullptr;
  };
  if (StreamGate* const gate = find(key)) return gate;
  if (!room) return nullptr;
  const Locked lock(gates.registry);
  if (StreamGate* const gate = find(key)) return gate;
  StreamGate* gate = find(0);
  const std::uint32_t used = wire::Load(gates.used);
  if (gate == nullptr) {
    if (used == StreamGates::kMaxStreams) return nullptr;
    gate = &gates.gate[used];
    wire::Store(gates.words[used].open, kAhead);
    wire::Store(gates.used, used + 1);
  }
  const Locked own(gate->mutex);
  gate->launches = 0;
  wire::Store(gate->stride, 1);
  wire::Store(gate->was_ahead, 0u);
  StoreWide(gate->key, key);
  return gate;
}

CUresult PutMark(const StreamGates& gates, const StreamGate& gate, std::uint32_t number, CUstream stream) {
  auto* const put = GPUMAN_REAL(cuStreamBatchMemOp_v2);
  if (put == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const auto index = static_cast<std::size_t>(&gate - gates.gate);
  const CUdeviceptr words = gates.address + index * sizeof(StreamGateWords);
  CUstreamBatchMemOpParams operation[3] = {};
  const auto set = [&](unsigned i, CUstreamBatchMemOpType what, std::size_t offset) {
    operation[i].waitValue.operation = what;
    operation[i].waitValue.address = words + offset;
    operation[i].waitValue.value64 = number;
  };
  set(0, CU_STREAM_MEM_OP_WRITE_VALUE_32, offsetof(StreamGateWords, reached));
  set(1, CU_STREAM_MEM_OP_WAIT_VALUE_32, offsetof(StreamGateWords, open));
  operation[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  set(2, CU_STREAM_MEM_OP_WRITE_VALUE_32, offsetof(StreamGateWords, passed));
  return put(stream, 3, operation, 0);
}

// Registers the words with the driver, after an earlier context the same ones. Returns false where that
// cannot be done now.
bool MakeWords(GateState& state) {
  StreamGates& gates = state.stream_gates;
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  auto* const add = GPUMAN_REAL(cuMemHostRegister_v2);
  auto* const remove = GPUMAN_REAL(cuMemHostUnregister);
  auto* const address_of = GPUMAN_REAL(cuMemHostGetDevicePointer_v2);
  constexpr std::size_t kBytes = StreamGates::kMaxStreams * sizeof(StreamGateWords);
  if (push == nullptr || pop == nullptr || add == nullptr || remove == nullptr || address_of == nullptr ||
      GPUMAN_REAL(cuStreamBatchMemOp_v2) == nullptr || GPUMAN_REAL(cuStreamGetId) == nullptr) {
    wire::Store(gates.failed, 1);
    return false;
  }
  // Their holders may be in the driver, for as long as the program's work takes.
  const TryLocked lock(state.contexts);
  if (!lock) return false;
  const TryLocked no_capture(state.capturing);  // it would spoil a capture
  if (!no_capture || wire::Load(state.captures) != 0) return false;
  auto* const words = gates.words != nullptr ? gates.words : static_cast<StreamGateWords*>(MapWiped(kBytes));
  std::uint64_t tried = 0;
  bool made = false;
  state.context.ForEach([&](std::uint64_t context, const Context&) {
    if (tried != 0 || words == nullptr) return;
    if (push(reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context))) != CUDA_SUCCESS) return;
    tried = context;
    if (gates.words != nullptr) {
      remove(words);  // a driver has forgotten them with the context; it says so then
      for (unsigned i = 0; i < StreamGates::kMaxStreams; ++i)
        for (std::uint32_t* const word : {&words[i].open, &words[i].reached, &words[i].passed})
          wire::Store(*word, 0u);
    }
    if (add(words, kBytes, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS) {
      made = address_of(&gates.address, words, 0) == CUDA_SUCCESS;
      if (!made) remove(words);
    }
    CUcontext ignored = nullptr;
    pop(&ignored);
  });
  if (made) {
    gates.words = words;
    StoreWide(gates.context, tried);
  } else {
    if (words != nullptr && gates.words == nullptr) UnmapWiped(words, kBytes);
    if (tried != 0) wire::Store(gates.failed, 1);
  }
  return made;
}

// How many marks the GPU has not reached yet.
std::uint32_t MarksToCome(const StreamGate& gate, std::uint32_t reached) {
  const std::uint32_t marks = wire::Load(gate.marks);
  return IsAfter(marks, reached) ? marks - reached : 0;
}

void AdaptStride(StreamGate& gate, std::uint32_t reached, std::uint64_t time, std::uint64_t pace) {
  const std::uint32_t to_come = MarksToCome(gate, reached), was_ahead = wire::Load(gate.was_ahead);
  const StreamSample sample{reached - gate.seen, time, to_come >= kMarksAhead, was_ahead != 0};
  gate.quiet = sample.marks == 0 && to_come == 0 ? gate.quiet + 1 : 0;
  gate.seen = reached;
  wire::Store(gate.stride, NextStride(wire::Load(gate.stride), sample, pace));
  wire::Store(gate.was_ahead, sample.is_ahead ? kSamplesAhead : was_ahead - (was_ahead != 0 ? 1 : 0));
}

// What was before is no part of the next sample.
void BeginSampling(StreamGates& gates, std::uint64_t now) {
  gates.adapted_at = now;
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i)
    gates.gate[i].seen = wire::Load(gates.words[i].reached);
}

void AdaptStrides(GateState& state, std::uint64_t now) {
  StreamGates& gates = state.stream_gates;
  const std::uint64_t pace = std::uint64_t{wire::Load(state.ledger->pace_us)} * 1'000;
  if (gates.adapted_at == 0) return BeginSampling(gates, now);
  const std::uint64_t passed = now - gates.adapted_at;
  if (passed < kMinSampleTime) return;
  gates.adapted_at = now;
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i) {
    StreamGate& gate = gates.gate[i];
    if (LoadWide(gate.key) == 0) continue;
    AdaptStride(gate, wire::Load(gates.words[i].reached), passed, pace);
    if (gate.quiet < kMaxQuietSamples) continue;
    const TryLocked own(gate.mutex);
    if (own) StoreWide(gate.key, 0);
  }
}

void LetPass(StreamGates& gates) {
  if (LoadWide(gates.context) == 0) return;
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i)
    wire::Store(gates.words[i].open, wire::Load(gates.gate[i].marks) + kAhead);
}

// Puts a mark into the stream where it is time for one. Returns false where the stream has no gate.
bool PassesGate(StreamGates& gates, CUstream stream) {
  auto* const current = GPUMAN_REAL(cuCtxGetCurrent);
  CUcontext context = nullptr;
  if (current == nullptr || current(&context) != CUDA_SUCCESS || context == nullptr) return false;
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(context);
  const StreamKey key = KeyOf(number, stream);
  if (number != LoadWide(gates.context) || !key.sure) return false;
  StreamGate* const gate = FindGate(gates, key.number);
  if (gate == nullptr) return false;
  const Locked lock(gate->mutex);
  if (LoadWide(gate->key) != key.number) return false;
  const std::uint32_t to_come = MarksToCome(*gate, wire::Load(gates.words[gate - gates.gate].reached));
  if (++gate->launches < StrideNow(wire::Load(gate->stride), to_come, wire::Load(gate->was_ahead) != 0))
    return true;
  gate->launches = 0;
  // The number is there before the GPU can come to it.
  const std::uint32_t before = wire::Load(gate->marks);
  wire::Store(gate->marks, before + 1);
  if (PutMark(gates, *gate, before + 1, stream) == CUDA_SUCCESS) return true;
  wire::Store(gate->marks, before);
  wire::Store(gates.failed, 1);
  return true;
}

}  // namespace

void BeforeLaunch(GateState& state, CUstream stream) {
  StreamGates& gates = state.stream_gates;
  if (wire::Load(gates.in_use) == 0 || wire::Load(gates.failed) != 0 || IsCapturing(stream)) return;
  if (wire::Load(state.captures) != 0 || !PassesGate(gates, stream))
    __atomic_store_n(&gates.unmarked, 1, __ATOMIC_RELAXED);
}

void ForgetStreamGatesOf(GateState& state, std::uint64_t context) {
  StreamGates& gates = state.stream_gates;
  if (context == 0 || LoadWide(gates.context) != context) return;
  const Locked lock(gates.registry);
  LetPass(gates);
  StoreWide(gates.context, 0);  // the words stay where they are: a mark may be on its way
  // What the words of the next context say begins anew.
  wire::Store(gates.used, 0);
  for (StreamGate& gate : gates.gate) {
    StoreWide(gate.key, 0);
    wire::Store(gate.marks, 0);
    gate.seen = gate.quiet = 0;
    wire::Store(gate.was_ahead, 0u);
  }
}

bool IsPaced(const GateState& state) {
  const std::uint32_t pace = wire::Load(state.ledger->pace_us);
  return pace != 0 && pace <= kLongestPaceUs && wire::Load(state.stream_gates.failed) == 0;
}

void UseStreamGates(GateState& state) {
  StreamGates& gates = state.stream_gates;
  if (LoadWide(gates.context) == 0 && !MakeWords(state)) return;
  LetPass(gates);
  const std::uint64_t now = NowNs();
  if (wire::Load(gates.in_use) != 0) return AdaptStrides(state, now);
  BeginSampling(gates, now);
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i) {
    wire::Store(gates.gate[i].stride, 1u);
    wire::Store(gates.gate[i].was_ahead, 0u);
  }
  wire::Store(gates.in_use, 1);
  TakeSlowPath(state.gate);
}

void EndStreamGates(GateState& state) {
  StreamGates& gates = state.stream_gates;
  if (wire::Load(gates.in_use) == 0) return;
  wire::Store(gates.in_use, 0);
  LeaveSlowPath(state.gate);
  LetPass(gates);
}

void CloseStreams(GateState& state) {
  StreamGates& gates = state.stream_gates;
  wire::Store(gates.closed, 1);
  gates.adapted_at = 0;  // how long the streams stand says nothing of their work
  if (LoadWide(gates.context) == 0) return;
  for (std::uint32_t i = 0; i < wire::Load(gates.used); ++i)
    wire::Store(gates.words[i].open, wire::Load(gates.words[i].reached));
}

void OpenStreams(GateState& state) {
  wire::Store(state.stream_gates.closed, 0);
  LetPass(state.stream_gates);
}

bool AreStreamsClosed(const StreamGates& gates) { return wire::Load(gates.closed) != 0; }

bool HasUnmarkedWork(const StreamGates& gates) { return wire::Load(gates.unmarked) != 0; }

void ForgetUnmarkedWork(GateState& state) { wire::Store(state.stream_gates.unmarked, 0u); }

StreamsAtRest AreStreamsAtRest(const GateState& state, std::uint64_t& moves) {
  const StreamGates& gates = state.stream_gates;
  if (wire::Load(gates.failed) != 0) return StreamsAtRest::kFailed;
  bool stands = false, behind = false;
  moves = 0;
  const bool made = LoadWide(gates.context) != 0;
  for (std::uint32_t i = 0; made && i < wire::Load(gates.used); ++i) {
    const std::uint32_t reached = wire::Load(gates.words[i].reached);
    moves += reached;
    if (reached != wire::Load(gates.words[i].passed))
      stands = true;
    else if (IsAfter(wire::Load(gates.gate[i].marks), reached))
      behind = true;
  }
  if (behind) return stands ? StreamsAtRest::kPartly : StreamsAtRest::kNo;
  return stands ? StreamsAtRest::kYes : StreamsAtRest::kNoMarks;
}

}  // namespace gpuman::shim
