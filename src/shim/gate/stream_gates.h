// Gates in the program's streams: while a job whose work goes first shares the GPU (Ledger::pace_us),
// launches wait for their turn on the GPU itself.
//
// Before a launch the program's thread puts a *mark* into the launch's stream: the GPU writes the number of
// the mark into a word of host memory (`reached`), waits until another word (`open`) is at least that number,
// and writes that it has passed. While the gates are open, the GPU passes each mark at once and the program
// runs ahead of the GPU as ever. To hold the work back, the service thread lets `open` be what was reached:
// the launch that runs ends, and nothing behind it begins; the stream *stands*. The program's threads are not
// in the way of that, and what they have queued goes on when the gates open. A kernel or a graph is not cut.
//
// A launch beside a capture of a graph gets no mark: nothing is to be in the way of a capture. The gates do
// not hold back its work either. After such a launch, or one in a stream without a gate, closed gates do not
// tell that the GPU rests, until the driver has said once that all work has ended.
//
// Only streams of one context have gates: that which was there when the gates were made, until it ends. The
// words lie in memory that a fork wipes, and that the shim has registered with the driver in that context.
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
  std::uint32_t passed;   // the last mark that it has passed
};

struct StreamGate {
  std::uint64_t key;        // atomic; StreamKey::number; 0: no stream has the gate. Written under `mutex`
  pthread_mutex_t mutex;    // held while a thread puts a mark into the stream
  std::uint32_t marks;      // atomic; how many the gate has got, of all its streams
  std::uint32_t launches;   // since the last mark; under `mutex`
  std::uint32_t stride;     // atomic; each so many launches there is a mark
  std::uint32_t was_ahead;  // atomic; for so many looks more the program counts as ahead of the GPU
  // The service thread writes these with each sample:
  std::uint32_t seen;   // `reached`
  std::uint32_t quiet;  // how many samples ago there was the last mark
};

struct StreamGates {
  // While so many streams have gates, others have none: their work is not held back on the GPU.
  static constexpr unsigned kMaxStreams = 64;
  pthread_mutex_t registry;          // held to give a stream a gate, and to make or forget all
  std::uint32_t used;                // atomic; how many gates have ever been given
  std::uint32_t in_use;              // atomic; 1: launches get marks
  std::uint32_t failed;              // atomic; 1: the driver has refused what the gates need
  std::uint32_t closed;              // atomic; 1: CloseStreams was called, and OpenStreams not yet
  std::uint32_t unmarked;            // atomic; 1: there may be work of launches in streams without a gate
  std::uint64_t context;             // atomic; whose streams have gates; 0: no words have been made
  StreamGateWords* words;            // kMaxStreams of them. Written before `context`, and never unmapped then
  driver::abi::CUdeviceptr address;  // of the words, for the GPU
  StreamGate gate[kMaxStreams];
  std::uint64_t adapted_at;  // of the service thread; CLOCK_MONOTONIC, ns; 0: the streams were closed since
};

// Puts a mark before a launch into the stream, where it is time for one. The stream is named as functions
// without the per-thread default stream name it. Any thread of the program may call this, inside the gate.
void BeforeLaunch(GateState& state, driver::abi::CUstream stream);

// A context is about to end, or has ended: the driver forgets what was registered in it. Any thread may call
// this.
void ForgetStreamGatesOf(GateState& state, std::uint64_t context);

// The service thread calls what follows.

// Returns whether the daemon wants marks before the program's launches, and the driver has not refused them.
bool IsPaced(const GateState& state);
// From now on launches get marks. Adapts the strides to the program when it is called again, each few
// milliseconds.
void UseStreamGates(GateState& state);
// Launches get no marks any more.
void EndStreamGates(GateState& state);

// Nothing behind a mark begins any more. Only for a process whose launches get marks.
void CloseStreams(GateState& state);
// Every mark passes. Any thread may call this at the program's end.
void OpenStreams(GateState& state);
bool AreStreamsClosed(const StreamGates& gates);

// Whether there may be work that no closed gate holds back: of launches without a mark, while gates are in
// use. What was launched before that, and copies, do not count.
bool HasUnmarkedWork(const StreamGates& gates);
// The driver has said that all work has ended.
void ForgetUnmarkedWork(GateState& state);

// What the closed streams do, as far as their marks tell.
enum class StreamsAtRest {
  kYes,      // each stream with a mark to come stands. Another may still work on the last that it has got
  kPartly,   // some stand; others work on what is before their mark, or wait for one that stands
  kNo,       // none stands
  kNoMarks,  // there is no mark to come: the driver knows whether there is work
  kFailed    // marks could not be put, so they tell nothing
};
// `moves` grows whenever a stream has come further.
StreamsAtRest AreStreamsAtRest(const GateState& state, std::uint64_t& moves);

}  // namespace gpuman::shim
