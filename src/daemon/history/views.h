// History as the API shows it. Pure.
#pragma once

#include <vector>

#include "api/history_types.h"
#include "history/query.h"

namespace gpuman::daemon {

// Everything but what the history is of. `rows`: of the plan's buckets.
api::HistoryView HistoryViewOf(const history::Plan& plan, const std::vector<history::Row>& rows,
                               history::SubjectKind kind);

}  // namespace gpuman::daemon
