#include "jobs/fast_json.h"

#include <simdjson.h>

namespace gpuman::jobs {
namespace {

using base::json::Json;
using simdjson::dom::element_type;

Json Value(const simdjson::dom::element& element) {
  switch (element.type()) {
    case element_type::OBJECT: {
      Json object = Json::object();
      auto& members = object.get_ref<Json::object_t&>();
      const simdjson::dom::object read(element);
      members.reserve(read.size());  // growing would copy all members: the keys are constant
      for (const auto& [name, value] : read) members.emplace_back(std::string(name), Value(value));
      return object;
    }
    case element_type::ARRAY: {
      Json array = Json::array();
      for (const auto& value : simdjson::dom::array(element)) array.push_back(Value(value));
      return array;
    }
    case element_type::STRING:
      return std::string(std::string_view(element));
    case element_type::INT64:
      return std::int64_t(element);
    case element_type::UINT64:
      return std::uint64_t(element);
    case element_type::DOUBLE:
      return double(element);
    case element_type::BOOL:
      return bool(element);
    case element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

}  // namespace

base::Result<Json> ParseFast(std::string_view text) {
  thread_local simdjson::dom::parser parser;  // keeps its memory between two texts
  simdjson::dom::element whole;
  if (const auto error = parser.parse(text.data(), text.size()).get(whole))
    return base::Fail(base::ErrorCode::kCorrupt, simdjson::error_message(error));
  return Value(whole);
}

}  // namespace gpuman::jobs
