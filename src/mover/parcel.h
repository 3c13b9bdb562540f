// One process's memory between the GPU and the host: taken from it, copied, loaded again, given back.
//
//   Take ---> on the GPU, ours ---Secure---> in host memory ---Load---> on a GPU, ours ---Give---> the
//   process's
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
  // `holding`: what Take of a mover that died had passed on.
  suspend::Answer Secure(std::vector<base::Fd> holding);
  suspend::Answer Load(const std::string& gpu);
  // kDone: nothing of it is here any more.
  suspend::Answer Give(base::Fd connection);
  // The process has ended.
  void Drop();

 private:
  suspend::Answer DoSecure(std::vector<base::Fd> holding);
  suspend::Answer DoLoad(const std::string& gpu);
  struct Offer;
  base::Result<Offer> Receive(int connection);
  base::Result<> Stow(Offer& offer);
  base::Result<> HandOver(int connection, const Stowage& stowage);
  base::Result<> Fill(int connection, suspend::Answer& answer);
  base::Result<> Find();
  base::Result<> Move(Direction direction, suspend::Answer& answer);
  bool OnGpu() const { return !memory_.empty(); }
  void Clear();

  const base::ProcessId process_;
  Gpus& gpus_;
  Pool& pool_;
  std::mutex mutex_;
  std::optional<Stowage> stowage_;
  std::vector<Memory> memory_;   // one for each piece, or none
  std::vector<base::Fd> files_;  // that it came by; with these it can be given back as it is
  suspend::Answer copied_out_{.outcome = suspend::Outcome::kDone};
};

}  // namespace gpuman::mover
