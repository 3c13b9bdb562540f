#include "base/toml_check.h"

#include <algorithm>

namespace gpuman::base {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsAscii(char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }

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
      if (!SkipStatement())
        return Mistake(begin, "a character that is not ASCII stands outside of a string and of a comment");
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

  // Whether what follows one or two brackets can begin a name, or is an end that toml++ tells by itself.
  bool HeaderHasName() {
    ++at_;
    if (Peek() == '[') ++at_;
    SkipSpaces();
    const char c = Peek();
    const bool is_bare = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return at_ == text_.size() || is_bare || c == '-' || c == '_' || c == '"' || c == '\'' || c == ']';
  }

  // To behind the line break that ends it; one inside brackets, braces or a long string does not.
  // False: at a byte that no statement may have.
  bool SkipStatement() {
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        SkipString(c);
        continue;
      }
      if (!IsAscii(c)) return false;
      ++at_;
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == '[' || c == '{')
        ++depth;
      else if (c == ']' || c == '}')
        depth = std::max(0, depth - 1);
      else if (c == '\n' && depth == 0)
        return true;
    }
    return true;
  }

  void SkipString(char quote) {
    const std::string_view marks = quote == '"' ? R"(""")" : "'''";
    const bool is_long = text_.substr(at_).starts_with(marks);
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      if (is_long ? text_.substr(at_).starts_with(marks) : text_[at_] == quote) {
        at_ += is_long ? 3 : 1;
        // A long string may end in one or two quotes of its own.
        for (int i = 0; is_long && i < 2 && Peek() == quote; ++i) ++at_;
        return;
      }
      if (!is_long && text_[at_] == '\n') return;  // not TOML
      at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    }
    at_ = text_.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<TomlMistake> FindTomlMistake(std::string_view text) { return Scanner(text).Find(); }

}  // namespace gpuman::base
