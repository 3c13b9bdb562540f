// Slurm's queue: the jobs that this user submitted to Slurm from here, asked for by Slurm's own programs. It
// starts none of them where there are no such jobs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/queue/other_queue.h"
#include "cli/session.h"

namespace gpuman::cli::slurm {

class Queue final : public queue::OtherQueue {
 public:
  std::string_view Name() const override { return "slurm"; }
  std::unique_ptr<queue::OtherJob> Find(Session& session, const std::string& word) const override;
  // Translates all jobs before it submits the first one. Slurm takes jobs one by one: if it refuses a later
  // one, the earlier ones stay in its queue, and the error says so.
  base::Result<int> Submit(Session& session, const queue::MadeSubmission& made,
                           const queue::Dialect& dialect) const override;
  bool ServesAlone(const Session& session) const override;
  // Records jobs that have ended.
  std::optional<queue::OtherListing> List(Session& session, const api::QueueFilter& filter) const override;
};

}  // namespace gpuman::cli::slurm
