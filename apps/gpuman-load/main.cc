// gpuman-load: a test load over the CUDA driver API, the same on real and on simulated GPUs.

#include <csignal>
#include <variant>

#include "children.h"
#include "options.h"
#include "report.h"
#include "workload.h"

int main(int argc, char** argv) {
  using namespace gpuman::load;
  const auto parsed = ParseOptions(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<Options>(parsed);
  if (options.ignore_term)
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  Report report(options.json);
  return options.children ? RunChildren(options, report) : RunWorkload(options, report, 0);
}
