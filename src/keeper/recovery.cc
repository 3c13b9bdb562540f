#include "keeper/recovery.h"

#include <fmt/format.h>

#include <set>

#include "keeper/job_dir.h"
#include "keeper/process_tree.h"

namespace gpuman::keeper {

base::Result<RecoveredJournal> RecoverJournal(const std::filesystem::path& job_dir) {
  RecoveredJournal recovered;
  GPUMAN_ASSIGN(recovered.end, EachRecord(job_dir, [&](const JournalRecord& record) {
                  Apply(recovered.history, record);
                  if (const auto* keeper = std::get_if<KeeperStarted>(&record.body))
                    recovered.keepers.push_back(*keeper);
                }));
  return recovered;
}

std::optional<base::Error> DamageOf(const RecoveredJournal& recovered, const JournalLossEvidence& evidence,
                                    const std::filesystem::path& job_dir) {
  if (recovered.end.damaged_line) return DamagedLine(job_dir, *recovered.end.damaged_line);
  const auto error = [&](std::string_view what) {
    return base::Error{base::ErrorCode::kCorrupt,
                       fmt::format("{} is damaged: {}", (job_dir / kJournalFile).string(), what)};
  };
  const std::uint64_t last = recovered.history.last_seq;
  // Every keeper writes its record first. A record that only a later version knows may be of a keeper.
  if (last > 0 && recovered.keepers.empty() && recovered.end.unknown == 0)
    return error("line 1 does not name the job's keeper");
  if (evidence.known_records > 1 && last + recovered.end.unknown < evidence.known_records)
    return error(
        fmt::format("it ends with record {}, and record {} was in it before", last, evidence.known_records));
  const auto& charged = evidence.in_charge;
  if (!charged || charged->boot_id != evidence.boot_id) return std::nullopt;
  for (const auto& keeper : recovered.keepers)
    if (keeper.key == charged->key) return std::nullopt;
  return error("the record of the last keeper is not in it any more");
}

void EndLeftoversOfAll(const RecoveredJournal& recovered, const JournalLossEvidence& evidence,
                       const base::ProcessTable& table) {
  auto keepers = recovered.keepers;
  if (evidence.in_charge) keepers.push_back(*evidence.in_charge);
  std::set<std::string> done;
  for (const auto& keeper : keepers)
    if (keeper.boot_id == evidence.boot_id && !keeper.key.empty() && done.insert(keeper.key).second)
      EndLeftovers(keeper.cgroup, keeper.key, table);
}

void NoteInCharge(int lock_fd, const JournalRecord& keeper_started) {
  WriteBehindHolder(lock_fd, EncodeLine(keeper_started));
}

std::optional<KeeperStarted> LastInCharge(int lock_fd) {
  for (const auto& record : ParseJournal(ReadBehindHolder(lock_fd)).records)
    if (const auto* keeper = std::get_if<KeeperStarted>(&record.body)) return *keeper;
  return std::nullopt;
}

}  // namespace gpuman::keeper
