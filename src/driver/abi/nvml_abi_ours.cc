#include <cstddef>

#include "driver/abi/abi_facts.h"
#include "driver/abi/nvml.h"

namespace gpuman::driver::abi {

Facts OurNvmlFacts() {
  Facts facts;
#define VALUE(name) facts[#name] = std::to_string(static_cast<long long>(name));
#define STRUCT(type) facts["sizeof " #type] = std::to_string(sizeof(type));
#define FIELD(type, field) \
  facts[#type "::" #field] = std::to_string(offsetof(type, field)) + ":" + Shape<decltype(type::field)>();
#include "driver/abi/nvml_facts.inc"
#define RETURN(name, value, text) VALUE(name)
  GPUMAN_NVML_RETURNS(RETURN)
#define FUNCTION(since, name, parameters) facts[#name "()"] = Signature<fn::name>::Text();
  GPUMAN_NVML_FUNCTIONS(FUNCTION)
  facts["nvmlErrorString()"] = Signature<nvmlErrorString_fn>::Text();
  return facts;
}

}  // namespace gpuman::driver::abi
