// One process's memory between the GPU and the host: taken from it in one or more batches, copied, loaded
// again, given back in one.
//
//   Take ---> on the GPU, ours ---Secure---> in host memory ---Load---> on a GPU, ours ---Give---> the
//   process's
//
// On its way to a GPU that reaches the one it is on, a batch stays there until it is given: the process makes
// memory of its own, and the copy goes straight into that. To another GPU that one cannot reach, from host
// memory.
//
// Pieces leave and come back one by one: what of a batch is whole in host memory is off the GPU, and what of
// it is loaded is on it. What fails leaves it where it was: each piece is whole in one of the two places at
// any time. Thread-safe: one step at a time, a second one waits; Begin, Grant and CallOff at any time.
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

// What is told on the way, each from within the step.
struct ProgressCallbacks {
  // Bytes more have left the GPU, or have come to it; of a batch on its way out so many pieces in all.
  std::function<void(std::uint64_t bytes, std::size_t pieces)> moved = [](std::uint64_t, std::size_t) {};
  // Duplicates for who is to have them should this mover die, before the process gives its memory up.
  std::function<void(std::span<const int>)> holding = [](std::span<const int>) {};
  // All of it is whole in host memory: nobody needs a descriptor any more.
  std::function<void()> safe = [] {};
  // The process has given its memory up.
  std::function<void(std::uint64_t bytes)> taken = [](std::uint64_t) {};
};

class Transfer {
 public:
  Transfer(base::ProcessId process, Gpus& gpus, Pool& pool, FreeList& free_list)
      : process_(process), gpus_(gpus), pool_(pool), free_list_(free_list) {}

  const base::ProcessId& process() const { return process_; }

  // What the process hands out over the connection. kDone: the batch is ours, and where it is to be `whole`
  // in host memory; else Secure sees to that. `target`: the GPU where the process goes next; empty: none is
  // known.
  suspend::Answer Take(base::Fd connection, bool whole, const std::string& target,
                       const ProgressCallbacks& tell);
  // Answers for what Finish has copied as well. What `target` reaches may stay.
  suspend::Answer Secure(const std::string& target, const ProgressCallbacks& tell);
  // The same where nobody asks for it.
  void Finish(const std::string& target);
  // `gpu`: where the process is going to be; empty: where it came from.
  suspend::Answer Load(const std::string& gpu, const ProgressCallbacks& tell);
  // Loads what is not loaded. kDone: nothing of it is here any more.
  suspend::Answer Give(base::Fd connection, const std::string& gpu, const ProgressCallbacks& tell);
  // The process has ended.
  void Drop();

  // What another mover had taken and not brought to its end; for the step that comes next. At any time.
  void Hold(std::size_t first, std::vector<base::Fd> files);
  // For the Load or Give that comes next.
  void Begin(std::optional<base::Bytes> room);
  void Grant(base::Bytes bytes) { credit_.Grant(bytes.count); }
  // No Load or Give is to wait for room any more.
  void CallOff() { credit_.CallOff(); }

 private:
  struct Batch {
    HostBuffer buffer;
    std::vector<Memory> memory{};        // by the piece, where it is on a GPU; or none
    std::vector<base::Fd> files{};       // that those came by; with these they can be given back as they are
    std::optional<CopyStream> stream{};  // on which they are on their way out
    std::vector<Slice> slices{};         // of all pieces, once they are known
    std::chrono::steady_clock::time_point begun{};
    std::optional<int> read_by{};  // the GPU, beside its own, that can read its memory
  };
  struct PieceRef {
    Batch* batch = nullptr;
    std::size_t piece = 0;
  };
  // Memory of the process's, for what the piece holds.
  struct Own {
    PieceRef ref;
    Memory memory;
  };
  // Pieces that are there, in order. What fails ends it.
  using Deliver = std::function<base::Result<>(std::span<const PieceRef>)>;

  // What a process hands out: until it has given it up, beside what is here of it.
  struct Offer {
    std::optional<Batch> batch{};
    bool more = false;                         // to what the process has handed out before
    std::vector<std::vector<Copy>> waiting{};  // by the piece: they set out together
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
  std::optional<int> elsewhere_;  // the GPU, not the one it came from, where the process is going to be
  suspend::Answer finished_{};    // bytes and time of what nobody has asked for yet
  std::mutex held_mutex_;
  std::vector<std::pair<std::size_t, base::Fd>> held_;  // by the piece
};

suspend::Answer AnswerOf(const base::Error& error);

}  // namespace gpuman::mover
