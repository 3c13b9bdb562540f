// One process's memory of one GPU, between that GPU and the host: the mover takes it from the process in one
// or more batches, copies it, loads it again, and gives it all back at once. `ours` shared: the mover has it.
//
//   Take -> on the GPU, ours -Secure-> in host memory -Load-> on a GPU, ours -Give-> the process's
//
// If the target GPU can read the GPU where a batch is, the batch stays there until Give: the process makes
// its own memory, and the mover copies straight into it. If the target GPU cannot, the copy comes from host
// memory.
//
// The host copy of a piece is kept when the process has the piece again (kept_copies.h): at the next way out
// only the chunks that have changed are copied.
//
// Pieces leave and come back one by one: the pieces of a batch that are whole in host memory are off the GPU,
// and those that are loaded are on it. A step that fails leaves each piece where it was: each piece is whole
// in one of the two places at any time.
//
// A step's caller holds Lock(); Hold and credit() are thread-safe without it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "ledger/wire/transfer.h"
#include "mover/copy_stream.h"
#include "mover/gpu_memory_free_list.h"
#include "mover/gpu_room_credit.h"
#include "mover/gpus.h"
#include "mover/hashing_rule.h"
#include "mover/host_arena.h"
#include "mover/host_copy.h"
#include "mover/host_memory_manifest.h"
#include "mover/kept_copies.h"
#include "mover/peer.h"
#include "mover/transfer_progress_listener.h"
#include "suspend/request.h"

namespace gpuman::mover {

// Numbers the times in which memory of a process is off the GPU. An epoch ends when the daemon tells that the
// process has all of its memory. The mover may carry that message out when the next epoch has begun.
enum class EvictionEpoch : std::uint64_t {};

// The manifests that this mover has of a process, by their inodes. Thread-safe.
class ManifestInodeSet {
 public:
  void Add(std::uint64_t inode) {
    const std::lock_guard lock(mutex_);
    inodes_.insert(inode);
  }
  void Remove(std::uint64_t inode) {
    const std::lock_guard lock(mutex_);
    inodes_.erase(inode);
  }
  bool Any() const {
    const std::lock_guard lock(mutex_);
    return !inodes_.empty();
  }
  bool Has(std::uint64_t inode) const {
    const std::lock_guard lock(mutex_);
    return inodes_.contains(inode);
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::uint64_t> inodes_;
};

class GpuTransfer {
 public:
  // What all transfers of a process use; outlives them.
  struct Shared {
    base::ProcessId process;
    Gpus& gpus;
    SegmentPool& pool;
    GpuMemoryFreeList& free_list;
    KeptCopiesBudget& kept;
    const HashingRule& hashing;
    ManifestInodeSet manifests{};
  };
  // `gpu`: the UUID of the GPU that the memory comes from.
  GpuTransfer(Shared& shared, std::string gpu)
      : shared_(shared), gpu_(std::move(gpu)), arena_(shared.pool), kept_(shared.kept, arena_) {}

  const std::string& gpu() const { return gpu_; }
  [[nodiscard]] std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }

  bool empty() const { return batches_.empty(); }
  // The process will be on another GPU, and makes its own memory there.
  bool GoesElsewhere() const { return elsewhere_.has_value(); }
  // Memory that another mover had taken and not finished is to be imported again.
  bool NeedsDescriptors() const;

  // The first message of an offer, with its first part imported.
  struct Opening {
    PartsMessage message;
    DeviceMemory first;
  };
  // Takes what the process hands out over the connection. kDone: the transfer has the batch; with `whole` it
  // is in host memory, otherwise Secure brings it there. `target`: the GPU where the process goes next;
  // empty: not known.
  suspend::MoverAnswer Take(int connection, Opening opening, bool whole, const std::string& target,
                            EvictionEpoch epoch, TransferProgressListener& progress);
  // Goes on with a batch that an earlier mover took.
  base::Result<> Adopt(HostMemoryManifest::Found found, EvictionEpoch epoch);
  // Brings all batches to host memory; memory that `target` can read may stay. The answer includes the bytes
  // that Finish has copied.
  suspend::MoverAnswer Secure(const std::string& target, TransferProgressListener& progress);
  // The same without a request.
  void Finish(const std::string& target);

  // Sends one message to the process; an error ends the step. No function: nothing is sent.
  using SendParts = std::function<base::Result<>(const ledger::wire::TransferParts&, const int* descriptors)>;
  // `gpu`: where the process will be; empty: where it came from. Pieces are sent as they arrive. If Load
  // fails, no piece that is whole in host memory stays on a GPU. `stop`: it fails soon after this is true.
  suspend::MoverAnswer Load(const std::string& gpu, GpuRoomCredit& credit, TransferProgressListener& progress,
                            const SendParts& send, const std::atomic<bool>& stop);
  // Takes pieces that are whole in host memory off the GPU.
  void Unload();

  // A piece, and the process's own memory for what it holds.
  struct PieceRef {
    std::size_t batch = 0, piece = 0;
  };
  struct Own {
    PieceRef ref;
    DeviceMemory memory;
  };
  void ForEachPiece(const std::function<void(const Piece&, PieceRef)>& visit) const;
  // Brings the transfer to host memory, or leaves it where the GPU to come can read it.
  suspend::MoverAnswer PrepareCopy(TransferProgressListener& progress) {
    return SecureAll(progress, elsewhere_);
  }
  // Copies from the GPU where the memory stayed, or from host memory.
  base::Result<> CopyInto(const std::vector<Own>& own);

  // The process has all of the memory: its host copies are kept.
  void Keep();
  // The process does not need what was taken.
  void Clear();
  // The same for batches of this epoch and of earlier ones.
  void Clear(EvictionEpoch last);
  // The process has ended: host copies are not kept either.
  void End();

  // Gets descriptors of memory that another mover had taken and not finished, for the pieces from `first` on;
  // the next step uses them.
  void Hold(std::size_t first, std::vector<base::Fd> files);
  // The room that the next Load of this transfer alone may take.
  GpuRoomCredit& credit() { return credit_; }

 private:
  struct Batch {
    HostMemoryManifest manifest;
    std::vector<HostCopy> copies{};      // by piece
    std::vector<DeviceMemory> memory{};  // by piece, where it is on a GPU; else empty
    std::vector<base::Fd> files{};       // of imported memory; with these the mover can give it back uncopied
    std::optional<CopyStream> stream{};  // for the copies on their way out
    std::size_t begun_copies = 0;        // the pieces before this one are in the stream, or whole
    std::vector<std::uint64_t> copied{};  // by piece: bytes that have to be copied out
    std::chrono::steady_clock::time_point begun{};
    bool hashed = false;           // on its way out
    std::optional<int> read_by{};  // another GPU that can read its memory
    EvictionEpoch epoch{};
  };
  // The memory that a process hands out, until the process has given it away.
  struct Offer {
    std::optional<Batch> batch{};
    bool more = false;       // in addition to the batches that the process has handed out before
    std::uint64_t left = 0;  // bytes that the process has announced and not handed out
    Extents free{};          // host memory for these
  };

  base::Result<> Regain(Batch& batch);
  std::optional<int> NumberOf(const std::string& gpu) const;
  bool GoesStraight(Batch& batch, std::optional<int> target);
  enum class Then { kKeep, kFree };
  void Discard(Batch& batch, Then then);
  base::Result<Extents> MakeRoom(int gpu, std::uint64_t bytes);
  base::Result<> MayHave(int gpu, std::uint64_t bytes) const;
  base::Result<> Prepare(int gpu, const ledger::wire::TransferParts& parts,
                         TransferProgressListener& progress, Offer& offer);
  base::Result<> Receive(int connection, Opening opening, std::optional<int> target,
                         TransferProgressListener& progress, Offer& offer);
  base::Result<> Accept(Offer& offer, std::uint64_t address, DeviceMemory memory, base::Fd file);
  base::Result<> Seal(Offer& offer, std::vector<Piece> pieces);
  // nullptr: memory there is not hashed.
  Hasher* HasherOf(int gpu) const { return shared_.hashing.on() ? shared_.gpus.HasherOf(gpu) : nullptr; }
  base::Result<> SetOut(Batch& batch);
  bool MayStay(const Batch& batch, std::optional<int> target) const;
  base::Result<> HandOver(int connection, const Batch& batch);
  suspend::MoverAnswer SecureAll(TransferProgressListener& progress,
                                 std::optional<int> target = std::nullopt);
  base::Result<> Secure(Batch& batch, TransferProgressListener& progress, suspend::MoverAnswer& answer);
  base::Result<> Compare(const DeviceMemory& piece, HostCopy& copy, suspend::MoverAnswer& answer);
  suspend::MoverAnswer MakeReadyFor(int gpu, TransferProgressListener& progress);
  base::Result<> FinishBeforeLoading(int target, TransferProgressListener& progress);
  base::Result<> Lost(std::size_t chunks) const;
  class Loading;
  class Requirements;
  base::Result<> Send(const SendParts& send, std::span<const PieceRef> refs);
  const Piece& PieceAt(const PieceRef& ref) const {
    return batches_[ref.batch].manifest.layout().pieces[ref.piece];
  }

  Shared& shared_;
  const std::string gpu_;
  HostArena arena_;
  KeptCopies kept_;
  GpuRoomCredit credit_;
  std::mutex mutex_;
  std::vector<Batch> batches_;
  std::optional<int> elsewhere_;     // the GPU where the process will be, if the memory came from another GPU
  suspend::MoverAnswer finished_{};  // bytes and time that no answer has reported yet
  std::mutex held_mutex_;
  std::vector<std::pair<std::size_t, base::Fd>> held_;  // by piece
};

suspend::MoverAnswer AnswerOf(const base::Error& error);

}  // namespace gpuman::mover
