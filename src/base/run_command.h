// Runs one program to its end: gives it standard input and a time limit, and returns what it prints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::base {

struct ProgramRunRequest {
  std::filesystem::path program;
  std::vector<std::string> arguments{};    // without the program's name
  std::vector<std::string> environment{};  // "NAME=value"; the whole environment
  std::string input{};
  Millis limit{10'000};  // after this time the program is killed
};

struct ProgramResult {
  int status = 0;      // exit status; 128+N for a signal
  std::string output;  // standard output and errors, at most 1 MiB
};

// Blocks until the program ends; does not wait for processes that it leaves in the background. kNotFound:
// there is no such program; kTimeout: it took too long. Thread-safe.
Result<ProgramResult> RunCommand(const ProgramRunRequest& command);

}  // namespace gpuman::base
