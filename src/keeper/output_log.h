// The file for a job's output. Its size is limited, and older parts are kept as PATH.1, PATH.2, … The file of
// a system daemon's job is root's, and the job's user may read it: a user who could write to it could fill
// the disk of the daemon's state. Where the file system has no access control lists it is the user's. Not
// thread-safe.
//
// Nothing that happens to the file stops the job: output that cannot be written is dropped and, when the file
// takes text again, a line says how much. A file that was deleted is made anew.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

// Whether a log of `size` bytes may still grow on a disk that has `free` of `total` bytes. Jobs leave a part
// of the disk to the daemon's records, so that others' jobs can start; of that part short logs have half.
// Pure.
bool MayGrow(base::Bytes size, base::Bytes free, base::Bytes total);

class OutputLog {
 public:
  OutputLog(LogSettings settings, uid_t uid, gid_t gid, const base::Clock& clock)
      : settings_(std::move(settings)), uid_(uid), gid_(gid), clock_(&clock) {}

  // Tells early why the file cannot be written; Write tries again each time.
  base::Result<> Open();

  void Write(std::string_view data);
  // A line of gpuman's own: "gpuman TIME: text".
  void Note(std::string_view text);

  void SetLimits(base::Bytes size_limit, std::uint32_t rotations);
  const LogSettings& settings() const { return settings_; }

 private:
  // How many bytes got into the file.
  std::size_t Append(std::string_view data);
  // Writes a line of gpuman's own, or nothing.
  bool Say(std::string_view text);
  // Why the file must not grow; empty: it may.
  std::string Withheld() const;
  void LeaveDeleted();
  void Rotate();
  std::filesystem::path Part(std::uint32_t number) const;

  LogSettings settings_;
  uid_t uid_;
  gid_t gid_;
  const base::Clock* clock_;
  base::Fd fd_;
  std::uint64_t size_ = 0;
  bool at_line_start_ = true;
  std::uint64_t lost_ = 0;
  std::string lost_why_;
  bool withheld_ = false;  // and a line in the file says so
};

}  // namespace gpuman::keeper
