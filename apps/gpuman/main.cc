// gpuman: the command line.
#include <unistd.h>

#include <exception>
#include <iostream>

#include "cli/app.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    const gpuman::cli::Surroundings surroundings{std::cout, std::cerr, gpuman::cli::LookOf(STDOUT_FILENO),
                                                 gpuman::cli::LookOf(STDERR_FILENO)};
    return gpuman::cli::RunCli({argv + (argc > 0 ? 1 : 0), argv + argc}, surroundings);
  } catch (const std::exception& error) {
    std::cerr << "gpuman: " << error.what() << '\n';
    return gpuman::cli::kExitFailed;
  }
}
