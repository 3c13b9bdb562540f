#include "mps/dialect.h"

#include "mps/answers.h"
#include "mps/dialect_v2.h"
#include "mps/dialect_v3.h"

namespace gpuman::mps {

std::unique_ptr<Dialect> MakeDialect(int protocol, ControlProgram program, const base::ProcessTable& table) {
  if (protocol == 3) return std::make_unique<DialectV3>(std::move(program), table);
  return std::make_unique<DialectV2>(std::move(program), table);
}

Client ClientOf(pid_t pid, const base::ProcessTable& table) {
  Client client{pid, table.Owner(pid), {}, {}};
  if (const auto process = table.Find(pid)) client.name = process->name;
  if (const auto text = table.Environment(pid, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
    client.limits.threads = ThreadsVariable(*text);
  if (const auto text = table.Environment(pid, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
    client.limits.memory = MemoryVariable(*text);
  return client;
}

}  // namespace gpuman::mps
