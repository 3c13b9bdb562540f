// gpuman: the command line; under the name nvsharectl, that command of nvshare's.
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <iostream>

#include "cli/app.h"
#include "cli/nvsharectl.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    using namespace gpuman::cli;  // NOLINT(google-build-using-namespace)
    const Surroundings surroundings{std::cout, std::cerr, LookOf(STDOUT_FILENO), LookOf(STDERR_FILENO)};
    const bool nvsharectl = argc > 0 && std::filesystem::path(argv[0]).filename() == kNvsharectl;
    return (nvsharectl ? RunNvsharectl : RunCli)({argv + (argc > 0 ? 1 : 0), argv + argc}, surroundings);
  } catch (const std::exception& error) {
    std::cerr << "gpuman: " << error.what() << '\n';
    return gpuman::cli::kExitFailed;
  }
}
