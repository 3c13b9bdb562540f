// What `gpuman top` knows and shows: all that a picture is made of. Values; update.h changes them, frame.h
// draws them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/queue_rows.h"
#include "api/share_types.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/process.h"
#include "cli/top/plot_history.h"
#include "cli/top/process_facts.h"
#include "cli/top_frame.h"

namespace gpuman::cli::top {

struct Size {
  std::size_t columns = 80, rows = 24;
  friend bool operator==(const Size&, const Size&) = default;
};

enum class Page { kJobs, kQueue, kSharing, kProcesses };
inline constexpr std::array kPages{Page::kJobs, Page::kQueue, Page::kSharing, Page::kProcesses};

enum class Action { kSuspend, kResume, kCancel, kEnd, kKill };

// Names a row of a list over many pictures.
struct RowId {
  enum class Kind { kNone, kJob, kProcess, kHeading };
  Kind kind = Kind::kNone;
  std::int64_t number = 0;  // the id of a job, the pid of a process
  std::string gpu{};        // UUID, where a list has the job or process once for each GPU
  friend bool operator==(const RowId&, const RowId&) = default;
};

// The chosen row of a page, and how far the page is scrolled.
struct ListState {
  RowId id;
  std::size_t index = 0;  // of the row in the list; the next choice, where the row is gone
  std::size_t first = 0;  // the uppermost row that is shown
};

// An action that waits for y or n. A process of no job gets SIGTERM by kEnd; kKill, which is SIGKILL, is for
// such processes alone.
struct Question {
  Action action = Action::kSuspend;
  std::int64_t job = 0;
  std::optional<base::ProcessId> process{};  // of no job
  std::string text{};                        // "suspend job 12 'train' of alice"
  bool of_active = false;                    // the status had the job, and it had not ended
};

// Says whose history it is: a GPU's, or a job's.
struct HistoryOf {
  std::string gpu{};  // UUID; empty: of the job
  std::int64_t job = 0;
  friend auto operator<=>(const HistoryOf&, const HistoryOf&) = default;
};

struct JobPage {
  std::int64_t job = 0;
  std::optional<api::JobView> view{};  // the newest one
  std::optional<api::JobStory> story{};
  std::vector<std::string> log{};  // its last lines, printable
  std::string log_problem{};       // why there is no log
  std::string problem{};           // why there is no job
  std::size_t back = 0;            // lines that the log is scrolled back; 0: it follows
};

struct State {
  // The last answers of the daemon, and the last facts of this host.
  api::StatusView status;
  std::optional<api::ShareView> share;
  std::optional<std::vector<api::QueueRow>> queue;  // jobs that wait, the next one first; null: not asked
  std::map<int, ProcessFacts> facts;                // by pid
  std::optional<HostFacts> host;
  base::WallTime now{};  // of the daemon's last answer
  std::string problem;   // why this is old, as a sentence; empty: it is not old
  PlotHistory samples;
  std::set<HistoryOf> histories;  // histories that were asked for

  // When the daemon is asked.
  base::Millis interval{1000};
  bool asking = false, asking_job = false;  // an answer is awaited
  base::MonoTime asked_at{};
  base::MonoTime ticked_at{};  // the last Tick

  // What is shown.
  Size size;
  bool unicode = true;  // else ASCII alone, but for names
  Page page = Page::kJobs;
  std::array<ListState, kPages.size()> choices;
  TopOrder order = TopOrder::kMemory;
  bool inverted = false;   // the order the other way round
  bool plots = true;       // of GPUs
  bool processes = true;   // below their jobs
  std::string filter;      // rows.h says what its words mean
  bool filtering = false;  // keys go to the filter
  bool help = false;
  std::optional<JobPage> job_page;
  std::optional<Question> question;
  std::string message;  // what became of the last action
  bool message_is_refusal = false;

  ListState& choice() { return choices[static_cast<std::size_t>(page)]; }
  const ListState& choice() const { return choices[static_cast<std::size_t>(page)]; }
};

}  // namespace gpuman::cli::top
