// Runs nvidia-cuda-mps-control for the control daemon of one GPU. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/run_command.h"
#include "mps/directories.h"

namespace gpuman::mps {

class ControlProgram {
 public:
  ControlProgram(std::filesystem::path program, Directories directories, std::string uuid)
      : program_(std::move(program)), directories_(std::move(directories)), uuid_(std::move(uuid)) {}

  // Blocks, at most ten seconds. The program gets none of this process's variables that could lead it to
  // another daemon or another protocol.
  base::Result<base::ProgramResult> Run(std::vector<std::string> arguments, std::string input = {}) const;

  const Directories& directories() const { return directories_; }
  const std::string& uuid() const { return uuid_; }  // of its GPU

 private:
  std::filesystem::path program_;
  Directories directories_;
  std::string uuid_;
};

// The first line of what a program printed.
std::string FirstLine(const std::string& text);

}  // namespace gpuman::mps
