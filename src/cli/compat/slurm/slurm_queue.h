// Slurm's queue: the jobs that this user submitted to Slurm from here, asked for by Slurm's own programs. It
// starts none of them where there are no such jobs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_context.h"
#include "cli/queue/external_queue.h"

namespace gpuman::cli::slurm {

class SlurmQueue final : public queue::ExternalQueue {
 public:
  std::string_view Name() const override { return "slurm"; }
  std::unique_ptr<queue::ExternalJobHandle> Find(CommandContext& session,
                                                 const std::string& word) const override;
  // Translates all jobs before it submits the first one. Slurm takes jobs one by one: if it refuses a later
  // one, the earlier ones stay in its queue, and the error says so.
  base::Result<int> Submit(CommandContext& session, const queue::MadeSubmission& made,
                           const queue::CommandDialect& dialect) const override;
  bool ServesAlone(const CommandContext& session) const override;
  // Records jobs that have ended.
  std::optional<queue::ExternalQueueListing> List(CommandContext& session,
                                                  const api::QueueFilter& filter) const override;
};

}  // namespace gpuman::cli::slurm
