// Records as JSON values: lines of the journal and packets of the protocol share them.
#pragma once

#include "base/result.h"
#include "keeper/journal.h"
#include "keeper/json.h"

namespace gpuman::keeper {

Json ToJson(const Reason& reason);
bool FromJson(const Json& json, Reason& out);

Json RecordToJson(const JournalRecord& record);
base::Result<JournalRecord> RecordFromJson(const Json& json);

}  // namespace gpuman::keeper
