// The file for a job's output. Its size is limited, and older parts are kept as PATH.1, PATH.2, … The file
// belongs to the job's user. Not thread-safe.
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
  void LeaveDeleted();
  void Rotate();
  void ReportLoss();
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
};

}  // namespace gpuman::keeper
