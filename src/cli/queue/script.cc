#include "cli/queue/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text.h"
#include "cli/parser.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;

constexpr std::string_view kBlanks = " \t\r";

std::string_view Trim(std::string_view text) { return base::Trimmed(text, kBlanks); }

// The text behind "# MARK" in a trimmed line.
std::optional<std::string_view> Behind(std::string_view line, std::string_view mark) {
  if (!line.starts_with('#')) return std::nullopt;
  line = Trim(line.substr(1));
  if (!line.starts_with(mark)) return std::nullopt;
  line.remove_prefix(mark.size());
  if (!line.empty() && kBlanks.find(line.front()) == std::string_view::npos) return std::nullopt;
  return line;
}

struct Word {
  std::string text;
  std::size_t begin = 0;  // its position in the line
  std::size_t end = 0;
};

// The word at or behind `at`; nullopt at the end of the line or where a comment begins.
base::Result<std::optional<Word>> NextWord(std::string_view line, std::size_t at) {
  at = line.find_first_not_of(kBlanks, at);
  if (at == std::string_view::npos || line[at] == '#') return std::optional<Word>();
  Word word;
  word.begin = at;
  char quote = 0;
  for (; at < line.size(); ++at) {
    const char c = line[at];
    if (quote == 0 && kBlanks.find(c) != std::string_view::npos) break;
    const bool escapes = c == '\\' && quote != '\'' && at + 1 < line.size() &&
                         (quote == 0 || line[at + 1] == '"' || line[at + 1] == '\\');
    if (escapes)
      word.text += line[++at];
    else if (quote != 0 ? c == quote : c == '\'' || c == '"')
      quote = quote != 0 ? '\0' : c;
    else
      word.text += c;
  }
  if (quote != 0) return base::Fail(ErrorCode::kInvalidArgument, fmt::format("a {} is never closed", quote));
  word.end = at;
  return std::optional(std::move(word));
}

// Reads the options of one dialect into settings, which must outlive it.
struct DialectReader {
  DialectReader(SubmitSettings& settings, const CommandDialect& dialect, base::WallTime now)
      : options(dialect.submit_options(settings, now)), reader(options) {}
  const Options options;
  OptionParser reader;
};

}  // namespace

base::Result<ShellWords> SplitLine(std::string_view line) {
  ShellWords words;
  for (std::size_t at = 0;;) {
    GPUMAN_ASSIGN(auto word, NextWord(line, at));
    if (!word) return words;
    at = word->end;
    words.begins.push_back(word->begin);
    words.texts.push_back(std::move(word->text));
  }
}

base::Result<Directives> ReadDirectives(std::string_view text,
                                        const std::vector<const CommandDialect*>& others) {
  Directives directives;
  bool header = true;
  int number = 0;
  while (!text.empty()) {
    const auto line = Trim(base::TakeUntil(text, '\n'));
    ++number;
    if (!line.empty() && !line.starts_with('#')) header = false;
    const CommandDialect* dialect = &kGpuman;
    auto options = Behind(line, dialect->mark);
    for (auto other = others.begin(); !options && other != others.end(); ++other) {
      dialect = *other;
      options = Behind(line, dialect->mark);
    }
    if (!options) continue;
    if (!header && !dialect->marks_anywhere) {
      directives.too_late.push_back(number);
      continue;
    }
    auto words = SplitLine(*options);
    if (!words) return base::Fail(std::move(words.error()).In(fmt::format("line {}", number)));
    directives.list.push_back({number, dialect, std::move(words->texts)});
  }
  return directives;
}

base::Result<> ApplyDirectives(const Directives& directives, std::string_view name, SubmitSettings& settings,
                               base::WallTime now) {
  std::map<const CommandDialect*, DialectReader> readers;
  for (const auto& [line, dialect, words] : directives.list) {
    const auto where = fmt::format("{}:{}", name, line);
    settings.line = where;
    auto rest = readers.try_emplace(dialect, settings, *dialect, now).first->second.reader.Read(words);
    if (!rest) return base::Fail(std::move(rest.error()).In(where));
    if (!rest->empty())
      return base::Fail(ErrorCode::kInvalidArgument,
                        fmt::format("{}: '{}' is not an option", where, rest->front()),
                        "such a line has only options; the command is below it");
  }
  if (settings.wait || settings.command || settings.jobs_file)
    return base::Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: --wait, --command and --jobs are possible on the command line only", name));
  return {};
}

std::size_t FirstCommand(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = Trim(text.substr(at, end - at));
    if (!line.empty() && !line.starts_with('#')) return at;
    at = std::min(end + 1, text.size());
  }
  return text.size();
}

void InsertLine(std::string& script, const std::string& line) {
  const auto at = FirstCommand(script);
  const bool needs_end = at == script.size() && !script.ends_with('\n');
  script.insert(at, (needs_end ? "\n" : "") + line + "\n");
}

std::string NoteOfNoGpu(std::string_view name) {
  if (name.empty())
    return "the job asks for no GPU, so it gets none; to give it one: gpuman submit --gpus 1 …";
  return fmt::format(
      "{}: it asks for no GPU, so the job gets none; to give it one: gpuman submit --gpus 1 {}", name,
      name == kStandardInput ? "-" : name);
}

bool IsShellScript(std::string_view text) {
  if (!text.starts_with("#!")) return text.find('\0') == std::string_view::npos;
  constexpr std::array<std::string_view, 7> kShells{"sh", "bash", "dash", "ash", "ksh", "zsh", "fish"};
  std::string_view line = Trim(text.substr(2, text.find('\n') - 2));
  // The interpreter is the last part of the path; behind env and its options it is the next word.
  while (!line.empty()) {
    const auto end = std::min(line.find_first_of(kBlanks), line.size());
    std::string_view word = line.substr(0, end);
    word = word.substr(word.rfind('/') + 1);
    line = Trim(line.substr(end));
    if (word == "env" || word.starts_with('-')) continue;
    return std::find(kShells.begin(), kShells.end(), word) != kShells.end();
  }
  return false;
}

}  // namespace gpuman::cli::queue
