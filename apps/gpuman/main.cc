// gpuman: the command line; under the name of a program of nvshare or gflow it acts as that program.
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    using namespace gpuman::cli;  // NOLINT(google-build-using-namespace)
    const ProgramContext context{std::cout, std::cerr, TerminalStyleOf(STDOUT_FILENO),
                                 TerminalStyleOf(STDERR_FILENO)};
    const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return RunCli(name, arguments, context);
  } catch (const std::exception& error) {
    std::cerr << "gpuman: " << error.what() << '\n';
    return gpuman::cli::kExitFailed;
  }
}
