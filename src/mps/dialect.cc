#include "mps/dialect.h"

#include <fmt/format.h>

#include "mps/answers.h"
#include "mps/dialect_v2.h"
#include "mps/dialect_v3.h"

namespace gpuman::mps {

std::unique_ptr<Dialect> MakeDialect(int protocol, ControlProgram program, const base::ProcessTable& table) {
  if (protocol == 3) return std::make_unique<DialectV3>(std::move(program), table);
  return std::make_unique<DialectV2>(std::move(program), table);
}

std::string Describe(const std::vector<LimitProblem>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "; ") + problem.message;
  return text;
}

std::string WhyNotThere(const AppliedLimits& applied, const MpsNamespacePlacement& placement) {
  std::vector<LimitProblem> of_it;
  for (const auto& problem : applied.problems)
    if (problem.server == placement.server &&
        (problem.name_space.empty() || problem.name_space == placement.name_space))
      of_it.push_back(problem);
  if (!of_it.empty()) return Describe(of_it);
  if (IsThere(applied.servers, placement)) return {};
  return fmt::format("the control daemon does not list namespace {} of server {}", placement.name_space,
                     placement.server);
}

MpsClient ClientOf(pid_t pid, const base::ProcessTable& table) {
  MpsClient client{pid, table.Owner(pid), {}, {}};
  if (const auto process = table.Find(pid)) client.name = process->name;
  if (const auto text = table.Environment(pid, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
    client.limits.threads = ThreadsVariable(*text);
  if (const auto text = table.Environment(pid, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
    client.limits.memory = MemoryVariable(*text);
  return client;
}

}  // namespace gpuman::mps
