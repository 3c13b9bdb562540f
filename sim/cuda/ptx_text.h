// Parses PTX text into statements, without their meaning. ptx_decode.cc decodes the meaning.
//
// Understands the directives and the statement syntax of hand-written and compiler-made kernels without
// shared or local memory. Anything else is an error with a line number. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace gpuman::sim::cuda::ptx {

struct Operand {
  enum class Kind { kName, kNumber, kAddress, kVector };
  Kind kind = Kind::kName;
  std::string name;                // register, special register, label or variable; base of an address
  std::int64_t number = 0;         // value, or the offset of an address
  bool is_double = false;          // number holds the bits of an f64
  std::vector<std::string> parts;  // registers of a vector operand
};

struct Statement {
  unsigned line = 0;
  std::string guard;  // predicate register; empty: unconditional
  bool guard_negated = false;
  std::vector<std::string> opcode;  // "ld.global.u32" split at the dots
  std::vector<Operand> operands;
};

struct Parameter {
  std::string name;
  unsigned offset = 0;
  unsigned size = 0;
};

struct Label {
  std::string name;
  std::size_t statement;  // index of the statement that follows
};

struct RegisterDeclaration {
  std::string name;
  bool is_predicate;
};

struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
  unsigned parameter_bytes = 0;
  unsigned max_threads = 1024;
  std::vector<RegisterDeclaration> registers;
  std::vector<Label> labels;
  std::vector<Statement> statements;
};

struct GlobalVariable {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t alignment = 1;
  std::vector<std::uint8_t> initial;  // shorter than size: the rest is zero
};

struct Text {
  unsigned version = 0;  // 70 is 7.0
  unsigned target = 0;   // 90 is sm_90
  std::vector<GlobalVariable> globals;
  std::vector<Entry> entries;
};

// Bytes of a type name without its dot ("u32" -> 4); 0 for an unknown name and for "pred".
unsigned SizeOfType(std::string_view type);

// The error is a sentence that begins with "line N: ".
tl::expected<Text, std::string> ParseText(std::string_view source);

}  // namespace gpuman::sim::cuda::ptx
