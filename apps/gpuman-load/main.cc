// gpuman-load: a test load over the CUDA driver API, the same on real and on simulated GPUs.

#include <csignal>
#include <variant>

#include "children.h"
#include "options.h"
#include "ranks.h"
#include "report.h"
#include "workload.h"

int main(int argc, char** argv) {
  namespace load = gpuman::load;
  const auto parsed = load::ParseOptions(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<load::Options>(parsed);
  if (options.ignore_term)
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  load::Report report(options.json);
  if (options.ranks) return load::RunRanks(options, report);
  return options.children ? load::RunChildren(options, report) : load::RunWorkload(options, report, 0);
}
