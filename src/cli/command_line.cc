#include "cli/command_line.h"

#include <algorithm>
#include <array>

namespace gpuman::cli {
namespace {

// Words with a meaning of their own for the shell where a command's name stands (POSIX 2.4, 2.14, and the
// built-ins that change the shell itself).
constexpr std::array<std::string_view, 33> kShellWords{
    "!",      ".",     ":",    "alias",  "break",  "case",  "cd",    "command",  "continue", "do",    "done",
    "eval",   "exec",  "exit", "export", "for",    "if",    "read",  "readonly", "return",   "set",   "shift",
    "source", "times", "trap", "type",   "ulimit", "umask", "unset", "until",    "wait",     "while", "{"};

bool IsShellWord(std::string_view word) {
  return std::find(kShellWords.begin(), kShellWords.end(), word) != kShellWords.end();
}

tl::unexpected<base::Error> Unclosed(char quote) {
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    std::string("the command has a ") + quote + " that is never closed",
                    "or write the command without quotes after --");
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  base::Result<> Run() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\'')
        GPUMAN_TRY(Single());
      else if (c == '"')
        GPUMAN_TRY(Double());
      else if (c == '\\')
        GPUMAN_TRY(Escape());
      else if (c == ' ' || c == '\t')
        EndWord();
      else
        Plain(c);
    }
    EndWord();
    return {};
  }

  bool needs_shell() const { return needs_shell_; }
  std::vector<std::string> TakeWords() { return std::move(words_); }

 private:
  base::Result<> Single() {
    const auto end = text_.find('\'', at_);
    if (end == text_.npos) return Unclosed('\'');
    Add(text_.substr(at_, end - at_));
    at_ = end + 1;
    return {};
  }

  base::Result<> Double() {
    Add("");
    while (at_ < text_.size()) {
      char c = text_[at_++];
      if (c == '"') return {};
      if (c == '$' || c == '`') needs_shell_ = true;
      if (c == '\\' && at_ < text_.size() &&
          std::string_view("$`\"\\").find(text_[at_]) != std::string_view::npos)
        c = text_[at_++];
      word_ += c;
    }
    return Unclosed('"');
  }

  base::Result<> Escape() {
    if (at_ == text_.size())
      return base::Fail(base::ErrorCode::kInvalidArgument, "the command ends with a backslash");
    if (text_[at_] == '\n') needs_shell_ = true;
    Add(text_.substr(at_++, 1));
    return {};
  }

  void Plain(char c) {
    constexpr std::string_view kAnywhere = "|&;<>()$`*?[\n";
    if (kAnywhere.find(c) != kAnywhere.npos) needs_shell_ = true;
    if (!in_word_ && (c == '~' || c == '#')) needs_shell_ = true;
    if (c == '=' && words_.empty()) needs_shell_ = true;  // NAME=value in front of a command
    Add(std::string_view(&c, 1));
  }

  void Add(std::string_view text) {
    word_ += text;
    in_word_ = true;
  }

  void EndWord() {
    if (!in_word_) return;
    if (words_.empty() && IsShellWord(word_)) needs_shell_ = true;
    words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  bool needs_shell_ = false;
  std::vector<std::string> words_;
};

}  // namespace

base::Result<std::vector<std::string>> SplitCommand(std::string_view text) {
  Splitter splitter(text);
  GPUMAN_TRY(splitter.Run());
  auto words = splitter.TakeWords();
  if (words.empty() || words.front().empty())
    return base::Fail(base::ErrorCode::kInvalidArgument, "the command is empty");
  if (splitter.needs_shell()) return std::vector<std::string>{"/bin/sh", "-c", std::string(text)};
  return words;
}

std::string JoinCommand(const std::vector<std::string>& argv) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  std::string line;
  for (const auto& word : argv) {
    if (!line.empty()) line += ' ';
    const bool high = std::any_of(word.begin(), word.end(), [](char c) { return c < 0; });
    if (!word.empty() && !high && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace gpuman::cli
