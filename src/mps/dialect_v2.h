// Protocol 2 of nvidia-cuda-mps-control.
#pragma once

#include "mps/dialect.h"

namespace gpuman::mps {

class DialectV2 final : public Dialect {
 public:
  DialectV2(ControlProgram program, const base::ProcessTable& table)
      : program_(std::move(program)), table_(table) {}

  std::vector<std::string> StartArguments() const override { return {"-d"}; }
  base::Result<std::vector<MpsServerStatus>> Servers() const override;
  base::Result<AppliedLimits> ApplyLimits(const WantedOnGpu& wanted) const override;
  base::Result<> Terminate(pid_t server, pid_t client) const override;
  base::Result<> Quit(bool force) const override;
  bool HasTimeSlices() const override { return false; }

 private:
  base::Result<std::string> Ask(const std::string& command) const;
  base::Result<> Tell(const std::string& command) const;
  base::Result<MpsServerStatus> ServerOf(pid_t pid) const;

  ControlProgram program_;
  const base::ProcessTable& table_;
};

}  // namespace gpuman::mps
