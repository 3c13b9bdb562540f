#include "keeper/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "keeper/fields.h"
#include "keeper/job_dir.h"
#include "keeper/protocol.h"

namespace gpuman::keeper {
namespace {

constexpr std::size_t kCrcDigits = 8;
constexpr std::size_t kPiece = 1u << 20;
constexpr std::size_t kLongestLine = 4u << 20;  // far more than a record takes

struct Line {
  bool sound = false;                   // as it was written
  std::optional<JournalRecord> record;  // nullopt where sound: only a later version knows its kind
};
Line DecodeLine(std::string_view line) {  // without its newline
  if (line.size() <= kCrcDigits || line[kCrcDigits] != ' ') return {};
  const auto crc = base::ParseNumber<std::uint32_t>(line.substr(0, kCrcDigits), 16);
  const auto json = line.substr(kCrcDigits + 1);
  if (base::Crc32c(json) != crc) return {};
  auto record = ParseRecord(json);
  if (record) return {true, std::move(*record)};
  return {record.error().code == base::ErrorCode::kNotSupported, std::nullopt};
}

// Takes a journal piece by piece.
class LineReader {
 public:
  explicit LineReader(const std::function<void(JournalRecord)>& visit) : visit_(visit) {}

  // Takes the whole lines at the beginning of `text`, and returns their length.
  std::size_t TakeLines(std::string_view text) {
    std::size_t taken = 0;
    for (;;) {
      const auto rest = text.substr(taken);
      const auto newline = rest.find('\n');
      if (newline == std::string_view::npos) break;
      Take(DecodeLine(rest.substr(0, newline)));
      taken += newline + 1;
    }
    end_.whole_bytes += taken;
    return taken;
  }

  // `rest`: what is left of the file, without a newline.
  JournalEnd Finish(std::string_view rest) {
    if (rest.empty()) return end_;
    auto whole = DecodeLine(rest);
    auto but_one = DecodeLine(rest.substr(0, rest.size() - 1));
    if (whole.sound) {
      end_.lacks_newline = true;
      end_.whole_bytes += rest.size();
      Take(std::move(whole));
    } else if (but_one.sound) {
      // Something else stands where its newline was.
      Take(std::move(but_one));
      NoteDamage();
    } else if (rest.size() > kLongestLine) {
      Take({});
    } else {
      end_.torn = true;
    }
    return end_;
  }

 private:
  void Take(Line line) {
    ++lines_;
    if (!line.sound) return NoteDamage();
    if (line.record)
      visit_(std::move(*line.record));
    else
      ++end_.unknown;
  }
  void NoteDamage() {
    if (!end_.damaged_line) end_.damaged_line = lines_;
  }

  const std::function<void(JournalRecord)>& visit_;
  JournalEnd end_;
  std::size_t lines_ = 0;
};

// Whether `text` sets a setting that `later` does not set; copies such settings into `later`.
bool SaysMore(const std::string& text, UpdateSettings& later) {
  const auto earlier = ParseSettings(text);
  if (!earlier) return false;
  bool more = false;
  const auto take = [&more](auto& to, const auto& from) {
    if (to || !from) return;
    to = from;
    more = true;
  };
  take(later.restart, earlier->restart);
  take(later.log_size_limit, earlier->log_size_limit);
  take(later.log_rotations, earlier->log_rotations);
  take(later.stop_grace, earlier->stop_grace);
  take(later.time_limit, earlier->time_limit);
  return more;
}

void ApplyBody(JobHistory& history, const JournalRecord&, const KeeperStarted& body) {
  history.keeper = body;
}

void ApplyBody(JobHistory& history, const JournalRecord& record, const RunStarted& body) {
  history.last_run = body.run;
  history.runs += 1;
  history.run_open = true;
  history.started = body;
  history.started_at = record.wall;
  history.failed.reset();
  history.ended.reset();
  history.ended_at.reset();
  history.restart.reset();
}

void ApplyBody(JobHistory& history, const JournalRecord& record, const StartFailed& body) {
  if (history.run_open && history.last_run == body.run) history.runs -= 1;
  history.last_run = body.run;
  history.run_open = false;
  history.started.reset();
  history.started_at.reset();
  history.failed = body;
  history.ended.reset();
  history.ended_at = record.wall;
  history.restart.reset();
}

void ApplyBody(JobHistory& history, const JournalRecord& record, const RunEnded& body) {
  history.last_run = body.run;
  history.run_open = false;
  history.ended = body;
  history.ended_at = record.wall;
}

void ApplyBody(JobHistory& history, const JournalRecord&, const StopOrdered& body) { history.stop = body; }

void ApplyBody(JobHistory& history, const JournalRecord&, const RestartOrdered& body) {
  history.restart_ordered = body;
}

void ApplyBody(JobHistory& history, const JournalRecord&, const RestartScheduled& body) {
  history.restart_ordered.reset();
  history.restart = body;
  history.in_a_row = body.in_a_row;
}

// The history keeps nothing of it: a run ends with its keeper, and the next run has its whole time.
void ApplyBody(JobHistory&, const JournalRecord&, const ClockPauseChanged&) {}

void ApplyBody(JobHistory& history, const JournalRecord&, const JobSettingsChanged& body) {
  history.settings.push_back(body.settings);
}

void ApplyBody(JobHistory& history, const JournalRecord&, const JobEnded& body) {
  history.job_ended = body;
  history.restart.reset();
}

}  // namespace

std::string SerializeRecord(const JournalRecord& record) { return base::json::ToText(record, kFormat); }

base::Result<JournalRecord> ParseRecord(std::string_view text) {
  return base::json::FromText<JournalRecord>(text, kFormat, "a record of the journal");
}

std::string EncodeLine(const JournalRecord& record) {
  const std::string json = SerializeRecord(record);
  return fmt::format("{:08x} {}\n", base::Crc32c(json), json);
}

ParsedJournal ParseJournal(std::string_view text) {
  ParsedJournal content;
  const std::function<void(JournalRecord)> visit = [&](JournalRecord record) {
    content.records.push_back(std::move(record));
  };
  LineReader reader(visit);
  const auto taken = reader.TakeLines(text);
  content.end = reader.Finish(text.substr(taken));
  return content;
}

base::Result<ParsedJournal> ReadJournal(const std::filesystem::path& job_dir) {
  ParsedJournal content;
  GPUMAN_ASSIGN(content.end, EachRecord(job_dir, [&](JournalRecord record) {
                  content.records.push_back(std::move(record));
                }));
  return content;
}

base::Result<JournalEnd> EachRecord(const std::filesystem::path& job_dir,
                                    const std::function<void(JournalRecord)>& visit) {
  const auto fd = base::OpenFile(job_dir / kJournalFile, O_RDONLY);
  if (!fd && fd.error().code == base::ErrorCode::kNotFound) return JournalEnd{};
  if (!fd) return base::Fail(fd.error());
  LineReader reader(visit);
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t n = ::read(fd->get(), text.data() + before, kPiece);
    if (n < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    if (n < 0) return base::FailSystem(errno, "reading a job's journal");
    text.resize(before + static_cast<std::size_t>(n));
    text.erase(0, reader.TakeLines(text));
    if (n == 0 || text.size() > kLongestLine) return reader.Finish(text);
  }
}

base::Error DamagedLine(const std::filesystem::path& job_dir, std::size_t line) {
  return {base::ErrorCode::kCorrupt,
          fmt::format("line {} of {} is damaged", line, (job_dir / kJournalFile).string())};
}

std::vector<JournalRecord> StillNeeded(const std::vector<JournalRecord>& records, std::uint64_t stored) {
  std::set<std::uint64_t> needed;
  std::set<std::size_t> kinds;    // kinds of which the last record was seen
  std::set<RunNumber> refused;    // runs that execve refused
  std::optional<RunNumber> last;  // the last run
  bool has_ran = false;
  UpdateSettings settings;  // what later records set
  for (auto it = records.rbegin(); it != records.rend(); ++it) {
    bool keep = it->seq > stored || it == records.rbegin();  // numbers go on after the last one
    const auto of_run = [&](RunNumber run) {
      if (!last) last = run;
      keep = keep || run == *last;
    };
    if (const auto* started = std::get_if<RunStarted>(&it->body)) {
      of_run(started->run);
      // A keeper asks whether a run ever began when one cannot be started.
      if (!refused.contains(started->run)) keep = !std::exchange(has_ran, true) || keep;
    } else if (const auto* failed = std::get_if<StartFailed>(&it->body)) {
      refused.insert(failed->run);
      of_run(failed->run);
    } else if (const auto* ended = std::get_if<RunEnded>(&it->body)) {
      of_run(ended->run);
    } else if (const auto* changed = std::get_if<JobSettingsChanged>(&it->body)) {
      keep = SaysMore(changed->settings, settings) || keep;
    } else if (!std::holds_alternative<ClockPauseChanged>(it->body)) {
      keep = kinds.insert(it->body.index()).second || keep;
    }
    if (keep) needed.insert(it->seq);
  }
  std::vector<JournalRecord> kept;
  for (const auto& record : records)
    if (needed.contains(record.seq)) kept.push_back(record);
  return kept;
}

void Apply(JobHistory& history, const JournalRecord& record) {
  history.last_seq = record.seq;
  std::visit([&](const auto& body) { ApplyBody(history, record, body); }, record.body);
}

}  // namespace gpuman::keeper
