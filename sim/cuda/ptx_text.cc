#include "sim/cuda/ptx_text.h"

#include <charconv>

#include "sim/cuda/ptx_lexer.h"

namespace gpuman::sim::cuda::ptx {
namespace {

constexpr unsigned kMaxRegisters = 4096;            // of one declaration
constexpr std::uint64_t kLargestGlobal = 1u << 30;  // bytes

std::vector<std::string> SplitAtDots(std::string_view word) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t dot = word.find('.');
    parts.emplace_back(word.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    word.remove_prefix(dot + 1);
  }
}

std::optional<unsigned> ParseUnsigned(std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// A recursive-descent parser. It keeps the first error; every function returns at once after it.
class Parser {
 public:
  explicit Parser(std::string_view source) : lexer_(source) {}

  tl::expected<Text, std::string> Run() {
    while (error_.empty() && lexer_.Peek().kind != Token::Kind::kEnd) ParseTopLevel();
    if (error_.empty() && text_.version == 0) error_ = "line 1: no .version directive";
    if (!error_.empty()) return tl::unexpected(error_);
    return std::move(text_);
  }

 private:
  bool Fail(unsigned line, std::string message) {
    if (error_.empty()) error_ = "line " + std::to_string(line) + ": " + std::move(message);
    return false;
  }
  bool Fail(std::string message) { return Fail(lexer_.Peek().line, std::move(message)); }
  bool Failed() const { return !error_.empty(); }

  bool Expect(char c) {
    if (lexer_.Peek().Is(c)) {
      lexer_.Take();
      return true;
    }
    return Fail(std::string("expected '") + c + "' before '" + std::string(lexer_.Peek().text) + "'");
  }
  bool Accept(char c) {
    if (!lexer_.Peek().Is(c)) return false;
    lexer_.Take();
    return true;
  }
  std::string TakeWord() {
    if (lexer_.Peek().kind != Token::Kind::kWord) {
      Fail("expected a word before '" + std::string(lexer_.Peek().text) + "'");
      return {};
    }
    return std::string(lexer_.Take().text);
  }
  std::uint64_t TakeNumber(bool* is_double = nullptr) {
    const bool negative = Accept('-');
    const std::string word = TakeWord();
    if (Failed()) return 0;
    const auto literal = ParseLiteral(word);
    if (!literal) {
      Fail("'" + word + "' is not a number");
      return 0;
    }
    if (is_double != nullptr) *is_double = literal->is_double;
    if (!negative) return literal->bits;
    return literal->is_double ? literal->bits ^ (std::uint64_t{1} << 63) : 0 - literal->bits;
  }

  void ParseTopLevel();
  void ParseVersion();
  void ParseTarget();
  void ParseGlobal();
  void ParseInitializer(GlobalVariable& variable, unsigned element);
  void ParseEntry();
  void ParseParameters(Entry& entry);
  void ParseBody(Entry& entry);
  void ParseRegisters(Entry& entry);
  void ParseStatement(Entry& entry, const Token& first);
  bool ParseOperand(Statement& statement);
  void SkipLine();

  Lexer lexer_;
  Text text_;
  std::string error_;
};

void Parser::SkipLine() {
  const unsigned line = lexer_.Peek().line;
  while (lexer_.Peek().kind != Token::Kind::kEnd && lexer_.Peek().line == line) lexer_.Take();
}

void Parser::ParseTopLevel() {
  const Token& token = lexer_.Peek();
  if (token.text == ".visible" || token.text == ".extern" || token.text == ".weak") {
    lexer_.Take();
  } else if (token.text == ".version") {
    ParseVersion();
  } else if (text_.version == 0) {
    Fail("a module begins with .version");
  } else if (token.text == ".target") {
    ParseTarget();
  } else if (token.text == ".address_size") {
    lexer_.Take();
    if (TakeNumber() != 64) Fail("only .address_size 64 is supported");
  } else if (token.text == ".global" || token.text == ".const") {
    ParseGlobal();
  } else if (token.text == ".entry") {
    ParseEntry();
  } else if (token.text == ".file" || token.text == ".loc") {
    SkipLine();
  } else {
    Fail("'" + std::string(token.text) + "' is not supported here");
  }
}

void Parser::ParseVersion() {
  lexer_.Take();
  const std::vector<std::string> parts = SplitAtDots(TakeWord());
  const auto major = ParseUnsigned(parts[0]);
  const auto minor = parts.size() == 2 ? ParseUnsigned(parts[1]) : std::nullopt;
  if (!major || !minor || *major == 0 || *major > 99 || *minor > 9) {
    Fail("the version is not of the form 7.0");
    return;
  }
  text_.version = *major * 10 + *minor;
}

void Parser::ParseTarget() {
  lexer_.Take();
  std::string target = TakeWord();
  while (!Failed() && Accept(',')) TakeWord();
  if (!target.empty() && (target.back() == 'a' || target.back() == 'f')) target.pop_back();
  const auto number = target.starts_with("sm_") ? ParseUnsigned(target.substr(3)) : std::nullopt;
  if (!number) {
    Fail("the target is not of the form sm_90");
    return;
  }
  text_.target = *number;
}

void Parser::ParseGlobal() {
  lexer_.Take();
  GlobalVariable variable;
  if (lexer_.Peek().text == ".align") {
    lexer_.Take();
    variable.alignment = TakeNumber();
  }
  const std::string type = TakeWord();
  const unsigned element = type.starts_with(".") ? SizeOfType(std::string_view(type).substr(1)) : 0;
  if (element == 0) {
    Fail("'" + type + "' is not a type of a variable");
    return;
  }
  variable.name = TakeWord();
  variable.size = element;
  if (Accept('[')) {
    const std::uint64_t count = TakeNumber();
    if (count == 0 || count > kLargestGlobal / element)
      Fail("the size of '" + variable.name + "' is out of range");
    variable.size = count * element;
    Expect(']');
  }
  if (variable.alignment < element) variable.alignment = element;
  if (variable.alignment > 256 || (variable.alignment & (variable.alignment - 1)) != 0) {
    Fail("the alignment is not a power of two up to 256");
  }
  if (!Failed() && Accept('=')) ParseInitializer(variable, element);
  if (!Failed()) Expect(';');
  if (!Failed()) text_.globals.push_back(std::move(variable));
}

void Parser::ParseInitializer(GlobalVariable& variable, unsigned element) {
  const bool braces = Accept('{');
  do {
    const std::uint64_t value = TakeNumber();
    for (unsigned byte = 0; byte < element; ++byte) {
      variable.initial.push_back(static_cast<std::uint8_t>(value >> (8 * byte)));
    }
  } while (!Failed() && braces && Accept(','));
  if (braces && !Failed()) Expect('}');
  if (variable.initial.size() > variable.size) Fail("more values than '" + variable.name + "' has elements");
}

void Parser::ParseEntry() {
  lexer_.Take();
  Entry entry;
  entry.name = TakeWord();
  if (!Failed() && Accept('(')) ParseParameters(entry);
  while (!Failed() && lexer_.Peek().kind == Token::Kind::kWord) {
    const std::string directive = TakeWord();
    std::uint64_t product = 1;
    do {
      product *= TakeNumber();
    } while (!Failed() && Accept(','));
    if (directive == ".maxntid" || directive == ".reqntid") {
      entry.max_threads = static_cast<unsigned>(product < 1024 ? product : 1024);
    } else if (directive != ".minnctapersm" && directive != ".maxnreg") {
      Fail("'" + directive + "' is not supported");
    }
  }
  if (!Failed() && Expect('{')) ParseBody(entry);
  if (!Failed()) text_.entries.push_back(std::move(entry));
}

void Parser::ParseParameters(Entry& entry) {
  if (Accept(')')) return;
  do {
    if (TakeWord() != ".param") {
      Fail("expected .param");
      return;
    }
    std::string type = TakeWord();
    std::uint64_t alignment = 0;
    if (type == ".align") {
      alignment = TakeNumber();
      type = TakeWord();
    }
    Parameter parameter;
    const unsigned element = type.starts_with(".") ? SizeOfType(std::string_view(type).substr(1)) : 0;
    if (element == 0 && !Failed()) Fail("'" + type + "' is not a type of a parameter");
    while (!Failed() && (lexer_.Peek().text == ".ptr" || lexer_.Peek().text == ".global")) lexer_.Take();
    if (lexer_.Peek().text == ".align") {
      lexer_.Take();
      TakeNumber();
    }
    parameter.name = TakeWord();
    parameter.size = element;
    if (Accept('[')) {
      const std::uint64_t count = TakeNumber();
      if (count == 0 || count > 4096) Fail("the parameter is too large");
      parameter.size = static_cast<unsigned>(count) * element;
      Expect(']');
    }
    if (Failed()) return;
    const unsigned align =
        alignment > element && alignment <= 256 ? static_cast<unsigned>(alignment) : element;
    parameter.offset = (entry.parameter_bytes + align - 1) / align * align;
    entry.parameter_bytes = parameter.offset + parameter.size;
    if (entry.parameter_bytes > 32764) Fail("the parameters take more than 32764 bytes");
    entry.parameters.push_back(std::move(parameter));
  } while (!Failed() && Accept(','));
  if (!Failed()) Expect(')');
}

void Parser::ParseBody(Entry& entry) {
  unsigned depth = 1;
  while (!Failed()) {
    const Token& token = lexer_.Peek();
    if (token.kind == Token::Kind::kEnd) {
      Fail("the body of '" + entry.name + "' does not end");
    } else if (Accept('{')) {
      ++depth;
    } else if (Accept('}')) {
      if (--depth == 0) return;
    } else if (token.text == ".reg") {
      ParseRegisters(entry);
    } else if (token.text == ".loc" || token.text == ".file") {
      SkipLine();
    } else if (token.text == ".pragma") {
      while (lexer_.Peek().kind != Token::Kind::kEnd && !Accept(';')) lexer_.Take();
    } else {
      const Token first = lexer_.Take();
      if (first.kind == Token::Kind::kWord && Accept(':')) {
        entry.labels.push_back({std::string(first.text), entry.statements.size()});
      } else {
        ParseStatement(entry, first);
      }
    }
  }
}

void Parser::ParseRegisters(Entry& entry) {
  lexer_.Take();
  const std::string type = TakeWord();
  const bool is_predicate = type == ".pred";
  if (!is_predicate && (!type.starts_with(".") || SizeOfType(std::string_view(type).substr(1)) == 0)) {
    Fail("'" + type + "' is not a type of a register");
    return;
  }
  do {
    const std::string name = TakeWord();
    if (!Failed() && Accept('<')) {
      const std::uint64_t count = TakeNumber();
      if (count > kMaxRegisters) Fail("too many registers");
      for (std::uint64_t i = 0; !Failed() && i < count; ++i) {
        entry.registers.push_back({name + std::to_string(i), is_predicate});
      }
      Expect('>');
    } else {
      entry.registers.push_back({name, is_predicate});
    }
  } while (!Failed() && Accept(','));
  if (!Failed()) Expect(';');
}

void Parser::ParseStatement(Entry& entry, const Token& first) {
  Statement statement;
  statement.line = first.line;
  std::string opcode(first.text);
  if (first.Is('@')) {
    statement.guard_negated = Accept('!');
    statement.guard = TakeWord();
    opcode = TakeWord();
  } else if (first.kind != Token::Kind::kWord) {
    Fail(first.line, "unexpected '" + opcode + "'");
  }
  if (Failed()) return;
  statement.opcode = SplitAtDots(opcode);
  // A modifier such as .L1::no_allocate has colons.
  while (Accept(':')) {
    Expect(':');
    for (const std::string& part : SplitAtDots(TakeWord())) statement.opcode.push_back(part);
  }
  if (!lexer_.Peek().Is(';')) {
    while (ParseOperand(statement) && Accept(',')) {
    }
  }
  if (!Failed() && Expect(';')) entry.statements.push_back(std::move(statement));
}

bool Parser::ParseOperand(Statement& statement) {
  Operand operand;
  if (Accept('[')) {
    operand.kind = Operand::Kind::kAddress;
    if (lexer_.Peek().kind == Token::Kind::kWord && !ParseLiteral(lexer_.Peek().text))
      operand.name = TakeWord();
    if (Accept('+') || operand.name.empty() || lexer_.Peek().Is('-'))
      operand.number = static_cast<std::int64_t>(TakeNumber());
    Expect(']');
  } else if (Accept('{')) {
    operand.kind = Operand::Kind::kVector;
    do {
      operand.parts.push_back(TakeWord());
    } while (!Failed() && Accept(','));
    Expect('}');
  } else if (lexer_.Peek().Is('-') || ParseLiteral(lexer_.Peek().text)) {
    operand.kind = Operand::Kind::kNumber;
    operand.number = static_cast<std::int64_t>(TakeNumber(&operand.is_double));
  } else if (lexer_.Peek().Is('!')) {
    return Fail("'!' before an operand is not supported");
  } else {
    operand.name = TakeWord();
  }
  if (Failed()) return false;
  statement.operands.push_back(std::move(operand));
  return true;
}

}  // namespace

unsigned SizeOfType(std::string_view type) {
  if (type.size() < 2 || std::string_view("usbf").find(type.front()) == std::string_view::npos) return 0;
  const auto bits = ParseUnsigned(type.substr(1));
  if (!bits) return 0;
  switch (*bits) {
    case 8:
      return type.front() == 'f' ? 0 : 1;
    case 16:
      return 2;
    case 32:
      return 4;
    case 64:
      return 8;
    default:
      return 0;
  }
}

tl::expected<Text, std::string> ParseText(std::string_view source) { return Parser(source).Run(); }

}  // namespace gpuman::sim::cuda::ptx
