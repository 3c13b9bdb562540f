#include "sim/cuda/ptx_lexer.h"

#include <bit>
#include <cctype>
#include <charconv>

namespace gpuman::sim::cuda::ptx {
namespace {

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

std::optional<std::uint64_t> ParseDigits(std::string_view digits, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return value;
}

}  // namespace

void Lexer::SkipBlanks() {
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else if (source_.substr(at_).starts_with("//")) {
      while (at_ < source_.size() && source_[at_] != '\n') ++at_;
    } else if (source_.substr(at_).starts_with("/*")) {
      const std::size_t end = source_.find("*/", at_ + 2);
      const std::size_t stop = end == std::string_view::npos ? source_.size() : end + 2;
      for (; at_ < stop; ++at_) {
        if (source_[at_] == '\n') ++line_;
      }
    } else {
      return;
    }
  }
}

void Lexer::Advance() {
  SkipBlanks();
  token_ = Token{Token::Kind::kEnd, {}, line_};
  if (at_ >= source_.size()) return;
  std::size_t end = at_ + 1;
  if (IsWordCharacter(source_[at_])) {
    while (end < source_.size() && IsWordCharacter(source_[end])) ++end;
    token_.kind = Token::Kind::kWord;
  } else if (source_[at_] == '"') {
    end = source_.find('"', end);
    end = end == std::string_view::npos ? source_.size() : end + 1;
    token_.kind = Token::Kind::kString;
  } else {
    token_.kind = Token::Kind::kPunctuation;
  }
  token_.text = source_.substr(at_, end - at_);
  at_ = end;
}

std::optional<Literal> ParseLiteral(std::string_view word) {
  if (word.empty() || std::isdigit(static_cast<unsigned char>(word.front())) == 0) return std::nullopt;
  if (word.size() == 10 && (word.starts_with("0f") || word.starts_with("0F"))) {
    const auto bits = ParseDigits(word.substr(2), 16);
    if (!bits) return std::nullopt;
    return Literal{*bits, false};
  }
  if (word.size() == 18 && (word.starts_with("0d") || word.starts_with("0D"))) {
    const auto bits = ParseDigits(word.substr(2), 16);
    if (!bits) return std::nullopt;
    return Literal{*bits, true};
  }
  if (word.find('.') != std::string_view::npos) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return Literal{std::bit_cast<std::uint64_t>(value), true};
  }
  if (word.back() == 'U') word.remove_suffix(1);
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0b") || word.starts_with("0B")) {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word.front() == '0') {
    base = 8;
    word.remove_prefix(1);
  }
  const auto value = ParseDigits(word, base);
  if (!value) return std::nullopt;
  return Literal{*value, false};
}

}  // namespace gpuman::sim::cuda::ptx
