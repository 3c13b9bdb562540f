// One process's memory between the GPU and the host: taken from it, copied, loaded again, given back.
//
//   Take ---> on the GPU, ours ---Secure---> in host memory ---Load---> on a GPU, ours ---Give---> the
//   process's
//
// On its way to a GPU that reaches the one it is on, it stays there until it is given: the process makes
// memory of its own, and the copy goes straight into that. To another GPU that one cannot reach, from host
// memory.
//
// What fails leaves it where it was: its data are whole in one of the two places at any time. Thread-safe:
// one step at a time, a second one waits.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "mover/gpus.h"
#include "mover/stowage.h"
#include "suspend/request.h"

namespace gpuman::mover {

class Parcel {
 public:
  Parcel(base::ProcessId process, Gpus& gpus, Pool& pool) : process_(process), gpus_(gpus), pool_(pool) {}

  const base::ProcessId& process() const { return process_; }
  // False: nothing of the process is here.
  bool Holds();

  // What the process hands out over the connection. `holding` passes duplicates on to who is to have them
  // should this mover die, before the process gives its memory up. kDone: the parcel is ours; Secure copies.
  suspend::Answer Take(base::Fd connection, const std::function<void(std::span<const int>)>& holding);
  // What Take of a mover that died had passed on: the next step goes on with it.
  void Hold(std::vector<base::Fd> holding);
  // `target`: the GPU that it may stay within reach of. Empty: in host memory.
  suspend::Answer Secure(const std::string& target);
  // Of these two `safe` is called once the data are whole in host memory: nobody needs a descriptor any more.
  // `gpu`: where the process is going to be; empty: where it came from.
  suspend::Answer Load(const std::string& gpu, const std::function<void()>& safe);
  // kDone: nothing of it is here any more.
  suspend::Answer Give(base::Fd connection, const std::string& gpu, const std::function<void()>& safe);
  // The process has ended.
  void Drop();

 private:
  suspend::Answer DoSecure();
  suspend::Answer DoLoad(const std::string& gpu, const std::function<void()>& safe);
  struct Offer;
  base::Result<Offer> Receive(int connection);
  base::Result<> Stow(Offer& offer);
  base::Result<> HandOver(int connection, const Stowage& stowage);
  base::Result<> Lend(int connection);
  base::Result<> AskForOwn(int connection);
  base::Result<> Fill(int connection, suspend::Answer& answer, const std::function<void()>& safe);
  base::Result<> Find();
  base::Result<> Move(Direction direction, suspend::Answer& answer);
  base::Result<> MoveAcross(const std::vector<Memory>& to, suspend::Answer& answer);
  bool GoesStraight(int target);
  suspend::Answer Stays() const;
  bool OnGpu() const { return !memory_.empty(); }
  void Clear();

  const base::ProcessId process_;
  Gpus& gpus_;
  Pool& pool_;
  std::mutex mutex_;
  std::optional<Stowage> stowage_;
  std::vector<Memory> memory_;    // one for each piece, or none
  std::vector<base::Fd> files_;   // that it came by; with these it can be given back as it is
  std::optional<int> elsewhere_;  // the GPU, not the one it came from, where the process is going to be
  std::optional<int> read_by_;    // the GPU, beside its own, that can read memory_
  suspend::Answer copied_out_{.outcome = suspend::Outcome::kDone};
};

}  // namespace gpuman::mover
