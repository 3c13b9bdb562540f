// The process table for who must not be held up by what it looks at: arguments and environment lie in the
// memory of their process, and who reads them waits for it, for as long as its owner keeps it locked (by a
// page that a file system of theirs does not deliver). Here a thread waits, and its caller for a moment.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/process.h"

namespace gpuman::base {

// Thread-safe. Arguments and environment are empty where they did not come in time. As long as that is so,
// those of other processes of the same user are not tried, root's excepted, and when there are several such
// nobody's. The rest is as ProcFs has it.
class PatientTable final : public ProcessTable {
 public:
  explicit PatientTable(std::filesystem::path root = "/proc",
                        std::chrono::milliseconds patience = std::chrono::milliseconds(500));
  // Threads that wait still end with the process.
  ~PatientTable() override;
  PatientTable(const PatientTable&) = delete;
  PatientTable& operator=(const PatientTable&) = delete;

  std::optional<ProcessInfo> Find(pid_t pid) const override { return proc_.Find(pid); }
  std::vector<ProcessInfo> List() const override { return proc_.List(); }
  std::optional<uid_t> Owner(pid_t pid) const override { return proc_.Owner(pid); }
  std::vector<std::string> CommandLine(pid_t pid) const override;
  std::optional<std::string> Environment(pid_t pid, std::string_view name) const override;
  std::optional<std::filesystem::path> Cgroup(pid_t pid) const override { return proc_.Cgroup(pid); }

 private:
  class Readers;
  bool Read(pid_t pid, std::function<void()> act) const;

  const ProcFs proc_;
  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Readers> readers_;  // its threads have it as well
};

}  // namespace gpuman::base
