#include <bit>
#include <unordered_map>

#include "sim/cuda/ptx_ops.h"
#include "sim/cuda/ptx_program.h"

namespace gpuman::sim::cuda::ptx {
namespace {

constexpr std::size_t kMaxColumns = 4096;

struct SpecialName {
  std::string_view name;
  Special special;
};
constexpr SpecialName kSpecials[] = {{"%tid.x", Special::kTidX},           {"%tid.y", Special::kTidY},
                                     {"%tid.z", Special::kTidZ},           {"%ntid.x", Special::kNtidX},
                                     {"%ntid.y", Special::kNtidY},         {"%ntid.z", Special::kNtidZ},
                                     {"%ctaid.x", Special::kCtaidX},       {"%ctaid.y", Special::kCtaidY},
                                     {"%ctaid.z", Special::kCtaidZ},       {"%nctaid.x", Special::kNctaidX},
                                     {"%nctaid.y", Special::kNctaidY},     {"%nctaid.z", Special::kNctaidZ},
                                     {"%laneid", Special::kLaneId},        {"%warpid", Special::kWarpId},
                                     {"%nwarpid", Special::kNwarpId},      {"%smid", Special::kSmId},
                                     {"%nsmid", Special::kNsmId},          {"%globaltimer", Special::kTimer},
                                     {"%globaltimer_lo", Special::kTimer}, {"%clock64", Special::kTimer},
                                     {"%clock", Special::kTimer}};

// Whether the word only says how and where memory is accessed.
bool IsMemoryModifier(std::string_view word) {
  static constexpr std::string_view kWords[] = {
      "volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "gpu", "sys", "cta",
      "ca",       "cg",      "cs",      "cv",      "lu",      "nc",   "wb",  "wt",  "mmio"};
  for (const std::string_view known : kWords) {
    if (known == word) return true;
  }
  return word.starts_with("L1") || word.starts_with("L2") || word.starts_with("no_allocate") ||
         word.starts_with("evict_");
}

bool ReadsAsChanging(std::string_view word) {
  return word == "volatile" || word == "relaxed" || word == "acquire" || word == "mmio";
}

bool ParseRounding(std::string_view word, Rounding& rounding) {
  if (word == "rn" || word == "rni")
    rounding = Rounding::kNearest;
  else if (word == "rz" || word == "rzi")
    rounding = Rounding::kZero;
  else if (word == "rm" || word == "rmi")
    rounding = Rounding::kDown;
  else if (word == "rp" || word == "rpi")
    rounding = Rounding::kUp;
  else
    return false;
  return true;
}

std::int64_t SizeOf(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kU16:
    case Type::kS16:
      return 2;
    case Type::kU32:
    case Type::kS32:
    case Type::kF32:
      return 4;
    default:
      return 8;
  }
}

class KernelDecoder {
 public:
  KernelDecoder(Entry entry, const std::unordered_map<std::string, std::int32_t>& globals)
      : entry_(std::move(entry)), globals_(globals) {}

  tl::expected<Kernel, std::string> Run();

 private:
  void Fail(std::string message) {
    if (error_.empty()) error_ = "line " + std::to_string(line_) + ": " + std::move(message);
  }
  [[nodiscard]] std::string Spelled(const Statement& statement) const {
    std::string text;
    for (const std::string& part : statement.opcode) text += (text.empty() ? "" : ".") + part;
    return text;
  }

  std::uint16_t NewColumn() {
    if (columns_ >= kMaxColumns) Fail("too many registers");
    return static_cast<std::uint16_t>(columns_++);
  }
  std::uint16_t Register(const std::string& name, bool predicate);
  std::uint16_t ConstantColumn(std::uint64_t value, std::int32_t global);
  std::uint16_t Source(const Operand& operand, Type type);
  std::uint16_t Destination(const Operand& operand, Type type);
  std::uint16_t Address(const Operand& operand, std::int64_t& offset);

  Instruction& Emit(const Statement& statement, Execute execute);
  bool Wants(const Statement& statement, std::size_t operands);
  void DecodeStatement(const Statement& statement);
  bool DecodeControl(const Statement& statement);
  void DecodeMove(const Statement& statement);
  void DecodeConvert(const Statement& statement);
  void DecodeCompare(const Statement& statement);
  void DecodeMemory(const Statement& statement);
  void DecodeParameterLoad(const Statement& statement, Type type);
  void DecodeAtomic(const Statement& statement);
  void DecodeArithmetic(const Statement& statement);

  Entry entry_;
  const std::unordered_map<std::string, std::int32_t>& globals_;
  Kernel kernel_;
  std::string error_;
  unsigned line_ = 1;
  std::size_t columns_ = 0;
  struct Known {
    std::uint16_t column;
    bool predicate;
  };
  std::unordered_map<std::string, Known> registers_;
  std::unordered_map<std::string, std::uint16_t> specials_;
  std::unordered_map<std::string, std::size_t> labels_;
};

std::uint16_t KernelDecoder::Register(const std::string& name, bool predicate) {
  const auto found = registers_.find(name);
  if (found == registers_.end()) {
    Fail("'" + name + "' is not declared");
    return 0;
  }
  if (found->second.predicate != predicate) Fail("'" + name + "' has the wrong type");
  return found->second.column;
}

std::uint16_t KernelDecoder::ConstantColumn(std::uint64_t value, std::int32_t global) {
  for (const Constant& constant : kernel_.constants) {
    if (constant.value == value && constant.global == global) return constant.register_index;
  }
  kernel_.constants.push_back({NewColumn(), value, global});
  return kernel_.constants.back().register_index;
}

std::uint16_t KernelDecoder::Source(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::kNumber) {
    auto bits = static_cast<std::uint64_t>(operand.number);
    if (type == Type::kF32 && operand.is_double) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    } else if (operand.is_double && type != Type::kF64) {
      Fail("a floating-point number where an integer is needed");
    }
    if (type == Type::kPredicate) bits = bits != 0 ? ~std::uint64_t{0} : 0;
    return ConstantColumn(bits, -1);
  }
  if (operand.kind != Operand::Kind::kName) {
    Fail("an address or a vector is not allowed here");
    return 0;
  }
  if (const auto global = globals_.find(operand.name); global != globals_.end()) {
    return ConstantColumn(0, global->second);
  }
  for (const SpecialName& special : kSpecials) {
    if (special.name != operand.name) continue;
    if (special.special == Special::kTimer) Fail("'" + operand.name + "' can only be read with mov");
    const auto [at, added] = specials_.try_emplace(operand.name, std::uint16_t{0});
    if (added) {
      at->second = NewColumn();
      kernel_.specials.push_back({special.special, at->second});
    }
    return at->second;
  }
  return Register(operand.name, type == Type::kPredicate);
}

std::uint16_t KernelDecoder::Destination(const Operand& operand, Type type) {
  if (operand.kind != Operand::Kind::kName) Fail("the destination has to be a register");
  if (operand.name == "_") return NewColumn();
  return Register(operand.name, type == Type::kPredicate);
}

std::uint16_t KernelDecoder::Address(const Operand& operand, std::int64_t& offset) {
  if (operand.kind != Operand::Kind::kAddress) {
    Fail("an address in brackets is needed");
    return 0;
  }
  offset = operand.number;
  if (operand.name.empty()) return ConstantColumn(0, -1);
  if (const auto global = globals_.find(operand.name); global != globals_.end()) {
    return ConstantColumn(0, global->second);
  }
  return Register(operand.name, false);
}

Instruction& KernelDecoder::Emit(const Statement& statement, Execute execute) {
  if (execute == nullptr) Fail("'" + Spelled(statement) + "' is not supported");
  Instruction instruction;
  instruction.execute = execute;
  if (!statement.guard.empty()) {
    instruction.guard = Register(statement.guard, true);
    instruction.guard_negated = statement.guard_negated;
  }
  kernel_.code.push_back(instruction);
  return kernel_.code.back();
}

bool KernelDecoder::Wants(const Statement& statement, std::size_t operands) {
  if (statement.operands.size() != operands) {
    Fail("'" + Spelled(statement) + "' takes " + std::to_string(operands) + " operands");
  }
  return error_.empty();
}

bool KernelDecoder::DecodeControl(const Statement& statement) {
  const std::string& name = statement.opcode[0];
  if (name == "ret" || name == "exit") {
    Emit(statement, FindNothing()).flow = Flow::kReturn;
  } else if (name == "bra") {
    if (!Wants(statement, 1)) return true;
    const auto label = labels_.find(statement.operands[0].name);
    if (label == labels_.end()) {
      Fail("there is no label '" + statement.operands[0].name + "'");
      return true;
    }
    Instruction& branch = Emit(statement, FindNothing());
    branch.flow = Flow::kBranch;
    branch.target = static_cast<std::uint32_t>(label->second);  // a statement; Run makes it an instruction
  } else if (name == "trap") {
    Emit(statement, FindTrap());
  } else if (name == "membar" || name == "fence") {
    Emit(statement, FindFence());
  } else if (name == "nanosleep") {
    if (Wants(statement, 1)) {
      const std::uint16_t time = Source(statement.operands[0], Type::kU32);
      Emit(statement, FindNanosleep()).a = time;
    }
  } else {
    return false;
  }
  return true;
}

void KernelDecoder::DecodeMove(const Statement& statement) {
  Type type{};
  if (statement.opcode.size() != 2 || !ParseType(statement.opcode[1], type))
    return Fail("mov needs one type");
  if (!Wants(statement, 2)) return;
  const std::uint16_t d = Destination(statement.operands[0], type);
  for (const SpecialName& special : kSpecials) {
    if (special.special == Special::kTimer && special.name == statement.operands[1].name) {
      Emit(statement, FindReadTimer()).d = d;
      return;
    }
  }
  const std::uint16_t a = Source(statement.operands[1], type);
  Instruction& move = Emit(statement, FindUnary("mov", type));
  move.d = d;
  move.a = a;
}

void KernelDecoder::DecodeConvert(const Statement& statement) {
  Rounding rounding = Rounding::kNone;
  std::vector<Type> types;
  if (statement.opcode[0] == "cvta") {
    types = {Type::kU64, Type::kU64};  // generic and global addresses are the same here
  } else {
    for (std::size_t i = 1; i < statement.opcode.size(); ++i) {
      Type type{};
      if (ParseType(statement.opcode[i], type))
        types.push_back(type);
      else if (!ParseRounding(statement.opcode[i], rounding) && statement.opcode[i] != "ftz")
        return Fail("'" + Spelled(statement) + "' is not supported");
    }
  }
  if (types.size() != 2) return Fail("cvt needs two types");
  if (!Wants(statement, 2)) return;
  const std::uint16_t d = Destination(statement.operands[0], types[0]);
  const std::uint16_t a = Source(statement.operands[1], types[1]);
  Instruction& convert = Emit(statement, FindConvert(types[0], types[1], rounding));
  convert.d = d;
  convert.a = a;
}

void KernelDecoder::DecodeCompare(const Statement& statement) {
  Type type{};
  if (statement.opcode.size() != 3 || !ParseType(statement.opcode[2], type)) {
    return Fail("'" + Spelled(statement) + "' is not supported");
  }
  if (!Wants(statement, 3)) return;
  const std::uint16_t d = Destination(statement.operands[0], Type::kPredicate);
  const std::uint16_t a = Source(statement.operands[1], type);
  const std::uint16_t b = Source(statement.operands[2], type);
  Instruction& compare = Emit(statement, FindCompare(statement.opcode[1], type));
  compare.d = d;
  compare.a = a;
  compare.b = b;
}

void KernelDecoder::DecodeParameterLoad(const Statement& statement, Type type) {
  const Operand& address = statement.operands[1];
  for (const Parameter& parameter : entry_.parameters) {
    if (parameter.name != address.name) continue;
    const std::uint16_t d = Destination(statement.operands[0], type);
    Instruction& load = Emit(statement, FindLoadParameter(type));
    load.d = d;
    load.offset = parameter.offset + address.number;
    if (load.offset < 0 || load.offset + SizeOf(type) > entry_.parameter_bytes) Fail("beyond the parameters");
    return;
  }
  Fail("there is no parameter '" + address.name + "'");
}

void KernelDecoder::DecodeMemory(const Statement& statement) {
  const bool is_load = statement.opcode[0] == "ld";
  Type type{};
  unsigned count = 1;
  bool parameter = false, typed = false, fresh = false, release = false;
  for (std::size_t i = 1; i < statement.opcode.size(); ++i) {
    const std::string& word = statement.opcode[i];
    if (word == "v2")
      count = 2;
    else if (word == "v4")
      count = 4;
    else if (word == "param")
      parameter = true;
    else if (ParseType(word, type))
      typed = true;
    else if (word != "global" && word != "const" && !IsMemoryModifier(word))
      return Fail("'" + Spelled(statement) + "' is not supported");
    fresh = fresh || ReadsAsChanging(word);
    release = release || word == "release";
  }
  if (!typed || (parameter && (!is_load || count != 1)))
    return Fail("'" + Spelled(statement) + "' is not supported");
  if (!Wants(statement, 2)) return;
  if (parameter) return DecodeParameterLoad(statement, type);
  std::int64_t offset = 0;
  const std::uint16_t address = Address(statement.operands[is_load ? 1 : 0], offset);
  const Operand& value = statement.operands[is_load ? 0 : 1];
  if ((value.kind == Operand::Kind::kVector ? value.parts.size() : 1) != count)
    return Fail("wrong number of elements");
  const std::int64_t step = SizeOf(type);
  for (unsigned element = 0; element < count && error_.empty(); ++element) {
    Operand one = value;
    if (value.kind == Operand::Kind::kVector) {
      one.kind = Operand::Kind::kName;
      one.name = value.parts[element];
    }
    const std::uint16_t column = is_load ? Destination(one, type) : Source(one, type);
    Instruction& access = Emit(statement, is_load ? FindLoad(type, fresh) : FindStore(type, release));
    access.a = address;
    (is_load ? access.d : access.b) = column;
    access.offset = offset + step * element;
  }
}

void KernelDecoder::DecodeAtomic(const Statement& statement) {
  const bool returns = statement.opcode[0] == "atom";
  std::string operation;
  Type type{};
  for (std::size_t i = 1; i < statement.opcode.size(); ++i) {
    const std::string& word = statement.opcode[i];
    if (word == "global" || IsMemoryModifier(word) || ParseType(word, type)) continue;
    if (!operation.empty()) return Fail("'" + Spelled(statement) + "' is not supported");
    operation = word;
  }
  const std::size_t first = returns ? 1 : 0;
  if (!Wants(statement, first + (operation == "cas" ? 3 : 2))) return;
  const std::uint16_t d = returns ? Destination(statement.operands[0], type) : NewColumn();
  std::int64_t offset = 0;
  const std::uint16_t a = Address(statement.operands[first], offset);
  const std::uint16_t b = Source(statement.operands[first + 1], type);
  const std::uint16_t c = operation == "cas" ? Source(statement.operands[first + 2], type) : std::uint16_t{0};
  Instruction& atomic = Emit(statement, FindAtomic(operation, type));
  atomic.d = d;
  atomic.a = a;
  atomic.b = b;
  atomic.c = c;
  atomic.offset = offset;
}

void KernelDecoder::DecodeArithmetic(const Statement& statement) {
  std::string operation = statement.opcode[0];
  Type type{};
  bool typed = false;
  for (std::size_t i = 1; i < statement.opcode.size(); ++i) {
    const std::string& word = statement.opcode[i];
    Rounding ignored{};
    if (word == "lo" || word == "hi" || word == "wide")
      operation += "." + word;
    else if (!typed && ParseType(word, type))
      typed = true;
    else if (!ParseRounding(word, ignored) && word != "ftz" && word != "approx" && word != "full")
      return Fail("'" + Spelled(statement) + "' is not supported");
  }
  if (!typed) return Fail("'" + Spelled(statement) + "' is not supported");
  Execute execute = nullptr;
  std::size_t sources = 0;
  if ((execute = FindUnary(operation, type)) != nullptr)
    sources = 1;
  else if ((execute = FindBinary(operation, type)) != nullptr)
    sources = 2;
  else if ((execute = FindTernary(operation, type)) != nullptr)
    sources = 3;
  else
    return Fail("'" + Spelled(statement) + "' is not supported");
  if (!Wants(statement, sources + 1)) return;
  const bool shift = operation == "shl" || operation == "shr";
  const std::uint16_t d = Destination(statement.operands[0], type);
  const std::uint16_t a = Source(statement.operands[1], type);
  const std::uint16_t b =
      sources > 1 ? Source(statement.operands[2], shift ? Type::kU32 : type) : std::uint16_t{0};
  const std::uint16_t c = sources > 2
                              ? Source(statement.operands[3], operation == "selp" ? Type::kPredicate : type)
                              : std::uint16_t{0};
  Instruction& instruction = Emit(statement, execute);
  instruction.d = d;
  instruction.a = a;
  instruction.b = b;
  instruction.c = c;
}

void KernelDecoder::DecodeStatement(const Statement& statement) {
  line_ = statement.line;
  const std::string& name = statement.opcode[0];
  if (DecodeControl(statement)) return;
  if (name == "mov") return DecodeMove(statement);
  if (name == "cvt" || name == "cvta") return DecodeConvert(statement);
  if (name == "setp") return DecodeCompare(statement);
  if (name == "ld" || name == "st") return DecodeMemory(statement);
  if (name == "atom" || name == "red") return DecodeAtomic(statement);
  DecodeArithmetic(statement);
}

tl::expected<Kernel, std::string> KernelDecoder::Run() {
  for (const RegisterDeclaration& declaration : entry_.registers) {
    registers_[declaration.name] = {NewColumn(), declaration.is_predicate};
  }
  for (const Label& label : entry_.labels) labels_[label.name] = label.statement;
  std::vector<std::uint32_t> first_instruction;
  for (const Statement& statement : entry_.statements) {
    first_instruction.push_back(static_cast<std::uint32_t>(kernel_.code.size()));
    DecodeStatement(statement);
    if (!error_.empty()) return tl::unexpected(error_);
  }
  first_instruction.push_back(static_cast<std::uint32_t>(kernel_.code.size()));
  for (Instruction& instruction : kernel_.code) {
    if (instruction.flow == Flow::kBranch) instruction.target = first_instruction[instruction.target];
  }
  Instruction end;  // a return for code without one at its end
  end.execute = FindNothing();
  end.flow = Flow::kReturn;
  kernel_.code.push_back(end);
  if (!error_.empty()) return tl::unexpected(error_);
  kernel_.name = entry_.name;
  kernel_.parameters = entry_.parameters;
  kernel_.parameter_bytes = entry_.parameter_bytes;
  kernel_.max_threads = entry_.max_threads;
  kernel_.registers = static_cast<unsigned>(columns_);
  return std::move(kernel_);
}

}  // namespace

tl::expected<Program, std::string> Decode(Text text) {
  Program program;
  program.version = text.version;
  program.target = text.target;
  std::unordered_map<std::string, std::int32_t> globals;
  for (const GlobalVariable& variable : text.globals) {
    globals[variable.name] = static_cast<std::int32_t>(program.globals.size());
    program.globals.push_back(variable);
  }
  for (Entry& entry : text.entries) {
    auto kernel = KernelDecoder(std::move(entry), globals).Run();
    if (!kernel) return tl::unexpected(kernel.error());
    program.kernels.push_back(std::move(*kernel));
  }
  return program;
}

}  // namespace gpuman::sim::cuda::ptx
