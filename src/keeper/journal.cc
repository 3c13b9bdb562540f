#include "keeper/journal.h"

#include <fmt/format.h>

#include <charconv>

#include "base/file.h"
#include "keeper/crc32c.h"

namespace gpuman::keeper {
namespace {

constexpr std::size_t kCrcDigits = 8;

// The record of one line without its newline, or nullopt when the line cannot be trusted. A record of a kind
// that only a later version knows is trusted and skipped by the caller: `known` is then false.
std::optional<Record> DecodeLine(std::string_view line, bool& known) {
  known = true;
  if (line.size() <= kCrcDigits || line[kCrcDigits] != ' ') return std::nullopt;
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + kCrcDigits, crc, 16);
  if (error != std::errc{} || end != line.data() + kCrcDigits) return std::nullopt;
  const auto json = line.substr(kCrcDigits + 1);
  if (Crc32c(json) != crc) return std::nullopt;
  auto record = ParseRecord(json);
  if (record) return std::move(*record);
  known = record.error().code != base::ErrorCode::kNotSupported;
  return std::nullopt;
}

void ApplyBody(JobHistory& history, const Record&, const KeeperStarted& body) { history.keeper = body; }

void ApplyBody(JobHistory& history, const Record& record, const RunStarted& body) {
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

void ApplyBody(JobHistory& history, const Record& record, const StartFailed& body) {
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

void ApplyBody(JobHistory& history, const Record& record, const RunEnded& body) {
  history.last_run = body.run;
  history.run_open = false;
  history.ended = body;
  history.ended_at = record.wall;
}

void ApplyBody(JobHistory& history, const Record&, const StopOrdered& body) { history.stop = body; }

void ApplyBody(JobHistory& history, const Record&, const RestartScheduled& body) {
  history.restart = body;
  history.in_a_row = body.in_a_row;
}

// A run ends with its keeper, and the next one has its whole time.
void ApplyBody(JobHistory&, const Record&, const ClockPaused&) {}

void ApplyBody(JobHistory& history, const Record&, const SettingsChanged& body) {
  history.settings.push_back(body.settings);
}

void ApplyBody(JobHistory& history, const Record&, const JobEnded& body) {
  history.job_ended = body;
  history.restart.reset();
}

}  // namespace

std::string EncodeLine(const Record& record) {
  const std::string json = SerializeRecord(record);
  return fmt::format("{:08x} {}\n", Crc32c(json), json);
}

JournalContent ParseJournal(std::string_view text) {
  JournalContent content;
  while (content.valid_bytes < text.size()) {
    const auto rest = text.substr(content.valid_bytes);
    const auto newline = rest.find('\n');
    bool known = false;
    auto record =
        newline == std::string_view::npos ? std::nullopt : DecodeLine(rest.substr(0, newline), known);
    if (newline == std::string_view::npos || (!record && known)) {
      content.torn = true;
      break;
    }
    content.valid_bytes += newline + 1;
    if (record) content.records.push_back(std::move(*record));
  }
  return content;
}

base::Result<JournalContent> ReadJournal(const std::filesystem::path& job_dir) {
  constexpr std::size_t kLimit = 256u << 20;
  const auto text = base::ReadFile(job_dir / "journal", kLimit);
  if (text) return ParseJournal(*text);
  if (text.error().code == base::ErrorCode::kNotFound) return JournalContent{};
  return base::Fail(text.error());
}

void Apply(JobHistory& history, const Record& record) {
  history.last_seq = record.seq;
  std::visit([&](const auto& body) { ApplyBody(history, record, body); }, record.body);
}

JobHistory Summarize(const std::vector<Record>& records) {
  JobHistory history;
  for (const auto& record : records) Apply(history, record);
  return history;
}

}  // namespace gpuman::keeper
