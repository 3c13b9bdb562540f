// What a keeper finds of the keepers before it, and whether it may go on where they stopped.
//
// A journal that has lost records tells of fewer runs than there were: a keeper that went on by it would run
// the command again. So there is evidence of the journal elsewhere, and a keeper whose journal is damaged
// refuses to go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "keeper/journal.h"

namespace gpuman::keeper {

struct RecoveredJournal {
  JobHistory history;
  std::vector<KeeperStarted> keepers;  // all that the journal names
  JournalEnd end;
};
base::Result<RecoveredJournal> RecoverJournal(const std::filesystem::path& job_dir);

// What is known of the journal from elsewhere.
struct JournalLossEvidence {
  std::optional<KeeperStarted> in_charge;  // the last keeper, by its lock
  std::string boot_id;                     // of the machine now
  // The newest record that the daemon has seen. 0 or 1: no evidence, since the first record is synced
  // together with the second.
  std::uint64_t known_records = 0;
};

// Why a keeper may not go on, as kCorrupt; nullopt: nothing is missing. Pure.
std::optional<base::Error> DamageOf(const RecoveredJournal& recovered, const JournalLossEvidence& evidence,
                                    const std::filesystem::path& job_dir);

// Kills what keepers of this boot left. All of them must be dead.
void EndLeftoversOfAll(const RecoveredJournal& recovered, const JournalLossEvidence& evidence,
                       const base::ProcessTable& table);

// The keeper that holds the lock notes there, once its record is in the journal, that it is in charge. The
// note stays until another keeper's replaces it. Nothing is synced: the note is of use in this boot alone.
void NoteInCharge(int lock_fd, const JournalRecord& keeper_started);
std::optional<KeeperStarted> LastInCharge(int lock_fd);

}  // namespace gpuman::keeper
