// One program run to its end, with a time limit: what it is told on standard input, what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::base {

struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments{};    // after its name
  std::vector<std::string> environment{};  // "NAME=value", all of it
  std::string input{};
  Millis limit{10'000};  // then it is killed
};

struct Finished {
  int status = 0;      // exit status; 128+N for a signal
  std::string output;  // standard output and errors, at most 1 MiB
};

// Blocks. What the program leaves behind in the background does not hold it up. kNotFound: there is no such
// program; kTimeout: it took too long. Thread-safe.
Result<Finished> RunCommand(const Command& command);

}  // namespace gpuman::base
