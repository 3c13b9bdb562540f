// Protocol 3 of nvidia-cuda-mps-control, as NVIDIA documents it for drivers from 615 on.
#pragma once

#include "mps/dialect.h"

namespace gpuman::mps {

class DialectV3 final : public Dialect {
 public:
  DialectV3(ControlProgram program, const base::ProcessTable& table)
      : program_(std::move(program)), table_(table) {}

  std::vector<std::string> StartArguments() const override { return {"-d", "-p", "3"}; }
  base::Result<std::vector<MpsServerStatus>> Servers() const override;
  base::Result<AppliedLimits> ApplyLimits(const WantedOnGpu& wanted) const override;
  base::Result<> Terminate(pid_t server, pid_t client) const override;
  base::Result<> Quit(bool force) const override;
  bool HasTimeSlices() const override;

 private:
  using Words = std::vector<std::string>;

  base::Result<std::string> Ask(Words words) const;
  base::Result<> Tell(const Words& words) const;
  // Without clients.
  base::Result<std::vector<MpsServerStatus>> BareServers() const;
  base::Result<> Make(const MpsChange& change) const;
  base::Result<> CreateServer(const MpsChange& change) const;
  // The program answers "done" also where the server's process cannot start, and ends at once.
  base::Result<> AwaitServer(const std::string& name) const;

  ControlProgram program_;
  const base::ProcessTable& table_;
};

}  // namespace gpuman::mps
