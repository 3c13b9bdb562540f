// Splits PTX text into tokens. A word is a run of letters, digits and _ $ % . so an opcode with its suffixes
// is one word; every other token is one character. Comments and blanks are dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuman::sim::cuda::ptx {

struct Token {
  enum class Kind { kWord, kPunctuation, kString, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;
  unsigned line = 1;

  bool Is(char c) const { return kind == Kind::kPunctuation && text.front() == c; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) { Advance(); }

  const Token& Peek() const { return token_; }
  Token Take() {
    const Token taken = token_;
    Advance();
    return taken;
  }

 private:
  void SkipBlanks();
  void Advance();

  std::string_view source_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
  Token token_;
};

// The bits of an integer or floating-point literal ("0x1F", "12U", "0f3F800000" as f32 bits, "0d…" and "1.5"
// as f64 bits); nullopt if the word is not a literal or does not fit 64 bits.
struct Literal {
  std::uint64_t bits;
  bool is_double;  // f64 bits
};
std::optional<Literal> ParseLiteral(std::string_view word);

}  // namespace gpuman::sim::cuda::ptx
