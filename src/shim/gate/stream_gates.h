// Gates in the program's streams: while a job whose work goes first shares the GPU (Ledger::pace_us),
// launches wait for their turn on the GPU itself.
//
// Before a launch the program's thread puts a *mark* into the launch's stream: the GPU writes the number of
// the mark into a word of host memory (`reached`), and waits until another word (`open`) is at least that
// number. While the gates are open, the GPU passes each mark at once and the program runs ahead of the GPU
// as ever. To hold the work back, the service thread lets `open` be what was reached: the launch that runs
// ends, and nothing behind it begins. The program's threads are not in the way of that, and what they have
// queued goes on when the gates open. A kernel or a graph is not cut.
//
// The words lie in memory that a fork wipes and that the shim registers with the driver.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "driver/abi/cuda.h"

namespace gpuman::shim {

struct GateState;

// The words of one stream, which the GPU reads and writes; atomic. Their numbers may begin anew, so only
// differences mean anything.
struct alignas(64) StreamGateWords {
  std::uint32_t open;     // the GPU passes marks up to this number
  std::uint32_t reached;  // the last mark that the GPU has come to
};

struct StreamGate {
  std::uint64_t key;       // StreamKey::number; 0: no stream has the gate. Set under `registry`
  pthread_mutex_t mutex;   // held while a thread puts a mark into the stream
  std::uint32_t marks;     // atomic; how many the stream has got
  std::uint32_t launches;  // since the last mark; under `mutex`
  std::uint32_t seen;      // `reached` at the service thread's last look
  bool waited;             // whether marks waited for the GPU then
};

struct StreamGates {
  // Streams beyond so many have no gate: their work is not held back on the GPU.
  static constexpr unsigned kMaxStreams = 64;
  pthread_mutex_t registry;          // held to give a stream a gate
  std::uint32_t used;                // atomic; how many gates have been given
  std::uint32_t in_use;              // atomic; 1: launches get marks
  std::uint32_t failed;              // atomic; 1: the driver has refused what the gates need
  std::uint32_t stride;              // atomic; each so many launches of a stream there is a mark
  StreamGateWords* words;            // kMaxStreams of them; null: not made yet
  driver::abi::CUdeviceptr address;  // of the words, for the GPU
  StreamGate gate[kMaxStreams];
  // Only the service thread uses these.
  bool closed;
  std::uint64_t looked;  // CLOCK_MONOTONIC, ns
};

// Puts a mark before a launch into the stream, where it is time for one. The stream is named as functions
// without the per-thread default stream name it. Any thread of the program may call this, inside the gate.
void BeforeLaunch(GateState& state, driver::abi::CUstream stream);

// The service thread calls what follows.

// Returns whether the daemon wants the program's work kept short.
bool IsPaced(const GateState& state);
// From now on launches get marks. Adapts the stride to the program when it is called again, each few
// milliseconds.
void UseStreamGates(GateState& state);
// Launches get no marks any more.
void EndStreamGates(GateState& state);

// Nothing behind a mark begins any more. Only for a process whose launches get marks.
void CloseStreams(GateState& state);
// Every mark passes. Any thread may call this at the program's end.
void OpenStreams(GateState& state);
inline bool AreStreamsClosed(const StreamGates& gates) { return gates.closed; }

enum class StreamsAtRest {
  kYes,     // the GPU has come to a closed mark in each stream that has one
  kNo,      // in one of them it works on what is before the mark
  kNoMarks  // no mark waits: the driver knows whether there is work
};
StreamsAtRest AreStreamsAtRest(const GateState& state);

}  // namespace gpuman::shim
