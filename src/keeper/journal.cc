#include "keeper/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <set>
#include <utility>

#include "base/crc32c.h"
#include "base/file.h"
#include "keeper/fields.h"
#include "keeper/job_dir.h"
#include "keeper/protocol.h"

namespace gpuman::keeper {
namespace {

constexpr std::size_t kCrcDigits = 8;
constexpr std::size_t kPiece = 1u << 20;
constexpr std::size_t kLongestLine = 4u << 20;  // far more than a record takes

// The record of one line without its newline; nullopt when the line cannot be trusted, or when only a later
// version knows its kind. In the second case `known` is false, and the caller skips the record.
std::optional<JournalRecord> DecodeLine(std::string_view line, bool& known) {
  known = true;
  if (line.size() <= kCrcDigits || line[kCrcDigits] != ' ') return std::nullopt;
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + kCrcDigits, crc, 16);
  if (error != std::errc{} || end != line.data() + kCrcDigits) return std::nullopt;
  const auto json = line.substr(kCrcDigits + 1);
  if (base::Crc32c(json) != crc) return std::nullopt;
  auto record = ParseRecord(json);
  if (record) return std::move(*record);
  known = record.error().code != base::ErrorCode::kNotSupported;
  return std::nullopt;
}

struct Part {
  std::size_t bytes = 0;  // of whole lines that can be trusted
  bool bad = false;       // a whole line follows that cannot
};
Part ReadLines(std::string_view text, const std::function<void(JournalRecord)>& visit) {
  Part part;
  for (;;) {
    const auto rest = text.substr(part.bytes);
    const auto newline = rest.find('\n');
    if (newline == std::string_view::npos) return part;
    bool known = false;
    auto record = DecodeLine(rest.substr(0, newline), known);
    part.bad = !record && known;
    if (part.bad) return part;
    part.bytes += newline + 1;
    if (record) visit(std::move(*record));
  }
}

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
  history.started_mono = record.mono;
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
void ApplyBody(JobHistory&, const JournalRecord&, const ClockPaused&) {}

void ApplyBody(JobHistory& history, const JournalRecord&, const SettingsChanged& body) {
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

JournalContent ParseJournal(std::string_view text) {
  JournalContent content;
  const auto part =
      ReadLines(text, [&](JournalRecord record) { content.records.push_back(std::move(record)); });
  content.valid_bytes = part.bytes;
  content.torn = part.bytes < text.size();
  return content;
}

base::Result<JournalContent> ReadJournal(const std::filesystem::path& job_dir) {
  JournalContent content;
  GPUMAN_ASSIGN(const auto end, EachRecord(job_dir, [&](JournalRecord record) {
                  content.records.push_back(std::move(record));
                }));
  content.valid_bytes = end.valid_bytes;
  content.torn = end.torn;
  return content;
}

base::Result<JournalEnd> EachRecord(const std::filesystem::path& job_dir,
                                    const std::function<void(JournalRecord)>& visit) {
  const auto fd = base::OpenFile(job_dir / kJournalFile, O_RDONLY);
  if (!fd && fd.error().code == base::ErrorCode::kNotFound) return JournalEnd{};
  if (!fd) return base::Fail(fd.error());
  JournalEnd end;
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
    const auto part = ReadLines(text, visit);
    end.valid_bytes += part.bytes;
    text.erase(0, part.bytes);
    end.torn = part.bad || text.size() > kLongestLine || (n == 0 && !text.empty());
    if (end.torn || n == 0) return end;
  }
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
    } else if (const auto* changed = std::get_if<SettingsChanged>(&it->body)) {
      keep = SaysMore(changed->settings, settings) || keep;
    } else if (!std::holds_alternative<ClockPaused>(it->body)) {
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

JobHistory Summarize(const std::vector<JournalRecord>& records) {
  JobHistory history;
  for (const auto& record : records) Apply(history, record);
  return history;
}

}  // namespace gpuman::keeper
