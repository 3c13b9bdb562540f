// One process's memory between the GPU and the host: the mover takes it from the process in one or more
// batches, copies it, loads it again, and gives it all back at once. `ours` means: the mover has it.
//
//   Take -> on the GPU, ours -Secure-> in host memory -Load-> on a GPU, ours -Give-> the process's
//
// If the target GPU can read the GPU where a batch is, the batch stays there until Give: the process makes
// its own memory, and the mover copies straight into it. If the target GPU cannot, the copy comes from host
// memory.
//
// Pieces leave and come back one by one: the pieces of a batch that are whole in host memory are off the GPU,
// and those that are loaded are on it. A step that fails leaves each piece where it was: each piece is whole
// in one of the two places at any time. Thread-safe: one step runs at a time, a second one waits; Begin,
// Grant and CallOff may come at any time.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "ledger/wire/transfer.h"
#include "mover/copy_stream.h"
#include "mover/credit.h"
#include "mover/free_list.h"
#include "mover/gpus.h"
#include "mover/host_buffer.h"
#include "suspend/request.h"

namespace gpuman::mover {

// What a step reports while it runs; the step itself calls these functions.
struct ProgressCallbacks {
  // So many more bytes have left the GPU, or have come to it; on the way out, `pieces` is the number of
  // pieces of the batch that have left so far.
  std::function<void(std::uint64_t bytes, std::size_t pieces)> moved = [](std::uint64_t, std::size_t) {};
  // Gets duplicates of the descriptors, for another mover if this one dies; called before the process gives
  // its memory away.
  std::function<void(std::span<const int>)> holding = [](std::span<const int>) {};
  // All of the memory is whole in host memory: the descriptors are not needed any more.
  std::function<void()> safe = [] {};
  // The process has given its memory away.
  std::function<void(std::uint64_t bytes)> taken = [](std::uint64_t) {};
};

class Transfer {
 public:
  Transfer(base::ProcessId process, Gpus& gpus, Pool& pool, FreeList& free_list)
      : process_(process), gpus_(gpus), pool_(pool), free_list_(free_list) {}

  const base::ProcessId& process() const { return process_; }

  // Takes what the process hands out over the connection. kDone: the mover has the batch; with `whole` it is
  // in host memory, otherwise Secure brings it there. `target`: the GPU where the process goes next; empty:
  // not known.
  suspend::Answer Take(base::Fd connection, bool whole, const std::string& target,
                       const ProgressCallbacks& tell);
  // Brings all batches to host memory; memory that `target` can read may stay. The answer includes the bytes
  // that Finish has copied.
  suspend::Answer Secure(const std::string& target, const ProgressCallbacks& tell);
  // The same without a request.
  void Finish(const std::string& target);
  // `gpu`: where the process will be; empty: where it came from.
  suspend::Answer Load(const std::string& gpu, const ProgressCallbacks& tell);
  // Loads the rest first. kDone: the mover has no memory of the process any more.
  suspend::Answer Give(base::Fd connection, const std::string& gpu, const ProgressCallbacks& tell);
  // The process has ended.
  void Drop();

  // Gets descriptors of memory that another mover had taken and not finished; the next step uses them. May be
  // called at any time.
  void Hold(std::size_t first, std::vector<base::Fd> files);
  // Sets the room that the next Load or Give may take; none: no bound.
  void Begin(std::optional<base::Bytes> room);
  void Grant(base::Bytes bytes) { credit_.Grant(bytes.count); }
  // From now on no Load or Give waits for room.
  void CallOff() { credit_.CallOff(); }

 private:
  struct Batch {
    HostBuffer buffer;
    std::vector<Memory> memory{};        // by piece, where it is on a GPU; else empty
    std::vector<base::Fd> files{};       // of imported memory; with these the mover can give it back uncopied
    std::optional<CopyStream> stream{};  // for the copies on their way out
    std::vector<Slice> slices{};         // of all pieces, once all pieces are known
    std::chrono::steady_clock::time_point begun{};
    std::optional<int> read_by{};  // another GPU that can read its memory
  };
  struct PieceRef {
    Batch* batch = nullptr;
    std::size_t piece = 0;
  };
  // The process's own memory for what a piece holds.
  struct Own {
    PieceRef ref;
    Memory memory;
  };
  // Delivers pieces that have arrived, in order. An error ends the step.
  using Deliver = std::function<base::Result<>(std::span<const PieceRef>)>;

  // The memory that a process hands out, until the process has given it away.
  struct Offer {
    std::optional<Batch> batch{};
    bool more = false;  // in addition to the batches that the process has handed out before
    std::vector<std::vector<Copy>> waiting{};  // by piece: their copies begin together
  };

  base::Result<> Find();
  base::Result<> Regain(Batch& batch);
  std::optional<int> NumberOf(const std::string& gpu) const;
  bool GoesStraight(Batch& batch, std::optional<int> target);
  void Clear();
  void Discard(Batch& batch);
  base::Result<> MayHave(std::uint64_t bytes) const;
  base::Result<> Receive(int connection, std::optional<int> target, const ProgressCallbacks& tell,
                         Offer& offer);
  base::Result<> Accept(Offer& offer, base::Fd file, const ledger::wire::Part& part, Cutter& cutter);
  base::Result<> SetOut(Offer& offer);
  bool MayStay(const Batch& batch, std::optional<int> target) const;
  base::Result<> HandOver(int connection, const Batch& batch);
  suspend::Answer SecureAll(const ProgressCallbacks& tell, std::optional<int> target = std::nullopt);
  base::Result<> Secure(Batch& batch, const ProgressCallbacks& tell, suspend::Answer& answer);
  suspend::Answer LoadAll(const std::string& gpu, const ProgressCallbacks& tell, const Deliver& deliver);
  suspend::Answer MakeReadyFor(int gpu, const ProgressCallbacks& tell);
  base::Result<> Fill(std::vector<PieceRef> refs, int gpu, const ProgressCallbacks& tell,
                      const Deliver& deliver, suspend::Answer& answer);
  class Needs;
  base::Result<> Begin(CopyStream& stream, int gpu, const PieceRef& ref, Needs& needs);
  base::Result<bool> GetRoom(std::uint64_t bytes, bool wait, const ProgressCallbacks& tell,
                             const Deliver& deliver);
  base::Result<> Send(int connection, std::span<const PieceRef> refs, bool last);
  base::Result<> AskForOwn(int connection);
  base::Result<> FillOwn(int connection, const ProgressCallbacks& tell, suspend::Answer& answer);
  base::Result<> ReceiveOwn(int connection, std::vector<Own>& own);
  base::Result<> Pour(const std::vector<Own>& own);
  static std::vector<Copy> CopiesOf(Batch& batch, std::size_t piece, const Memory& memory);

  const base::ProcessId process_;
  Gpus& gpus_;
  Pool& pool_;
  FreeList& free_list_;
  Credit credit_;
  std::mutex mutex_;
  std::vector<Batch> batches_;
  std::optional<int> elsewhere_;  // the GPU where the process will be, if the memory came from another GPU
  suspend::Answer finished_{};    // bytes and time that no answer has reported yet
  std::mutex held_mutex_;
  std::vector<std::pair<std::size_t, base::Fd>> held_;  // by piece
};

suspend::Answer AnswerOf(const base::Error& error);

}  // namespace gpuman::mover
