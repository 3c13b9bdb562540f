#include "base/toml_check.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace gpuman::base {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsTomlText(char c) { return (c >= ' ' && c <= '~') || c == '\t' || c == '\n' || c == '\r'; }

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::optional<TomlMistake> Find() {
    while (at_ < text_.size()) {
      const std::size_t begin = at_;
      SkipSpaces();
      if (Peek() == '[' && !HeaderHasName())
        return Mistake(begin, "a table's header has no name; it is written [name] or [[name]]");
      if (const char* const wrong = SkipStatement()) return Mistake(begin, wrong);
    }
    return std::nullopt;
  }

 private:
  TomlMistake Mistake(std::size_t before, const char* message) const {
    const auto read = text_.substr(0, at_);
    return {before, 1 + static_cast<std::size_t>(std::count(read.begin(), read.end(), '\n')), message};
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipSpaces() {
    while (Peek() == ' ' || Peek() == '\t') ++at_;
  }

  // Whether the text behind one or two brackets can begin a name, or is a wrong end that toml++ reports
  // itself.
  bool HeaderHasName() {
    ++at_;
    if (Peek() == '[') ++at_;
    SkipSpaces();
    const char c = Peek();
    return at_ == text_.size() || IsLetter(c) || IsDigit(c) || c == '-' || c == '_' || c == '"' ||
           c == '\'' || c == ']';
  }

  // Moves behind the line break that ends the statement; a line break inside brackets, braces or a long
  // string does not end it. Returns what is wrong, or nullptr.
  const char* SkipStatement() {
    open_.clear();
    in_value_ = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        SkipString(c);
      } else if (in_value_ && (IsDigit(c) || c == '+' || c == '-')) {
        if (!SkipNumber()) return "a number holds a character that no number has";
      } else if (!IsTomlText(c)) {
        return "outside of strings and comments only ASCII characters that can be printed may stand";
      } else if (IsClosing(c) && !Close(c)) {
        return "a bracket is closed by another one than opened it";
      } else {
        ++at_;
        if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size());
        if (c == '\n' && open_.empty()) return nullptr;
        Follow(c);
      }
    }
    return nullptr;
  }

  // Tracks which brackets are open behind `c`, and whether a value may come next.
  void Follow(char c) {
    if (c == '[' || c == '{') open_.push_back(c);
    if (c == '=' || c == '}') in_value_ = true;
    if (c == '{' || (c == ',' && !open_.empty() && open_.back() == '{')) in_value_ = false;
  }

  // toml++ reads everything that begins like a number or a date up to the next separator.
  bool SkipNumber() {
    for (; at_ < text_.size() && std::string_view(" \t\r\n,#]}").find(text_[at_]) == std::string_view::npos;
         ++at_)
      if (!IsLetter(text_[at_]) && !IsDigit(text_[at_]) &&
          std::string_view("_+-.:").find(text_[at_]) == std::string_view::npos)
        return false;
    return true;
  }

  static bool IsClosing(char c) { return c == ']' || c == '}'; }

  // A bracket that closes nothing is the end of a header, or toml++ reports it.
  bool Close(char c) {
    if (open_.empty()) return true;
    const bool fits = open_.back() == (c == ']' ? '[' : '{');
    open_.pop_back();
    return fits;
  }

  void SkipString(char quote) {
    const std::string_view marks = quote == '"' ? R"(""")" : "'''";
    const bool is_long = text_.substr(at_).starts_with(marks);
    at_ += is_long ? 3U : 1U;
    while (at_ < text_.size()) {
      if (is_long ? text_.substr(at_).starts_with(marks) : text_[at_] == quote) {
        at_ += is_long ? 3U : 1U;
        // A long string may end in one or two quotes of its own.
        for (int i = 0; is_long && i < 2 && Peek() == quote; ++i) ++at_;
        return;
      }
      if (!is_long && text_[at_] == '\n') return;  // not TOML
      at_ += quote == '"' && text_[at_] == '\\' ? 2U : 1U;
    }
    at_ = text_.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool in_value_ = false;
  std::string open_;  // brackets and braces of the statement
};

}  // namespace

std::optional<TomlMistake> FindTomlMistake(std::string_view text) { return Scanner(text).Find(); }

}  // namespace gpuman::base
