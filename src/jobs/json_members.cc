#include "jobs/json_members.h"

#include <simdjson.h>

namespace gpuman::jobs {
namespace {

using Json = nlohmann::json;
using simdjson::dom::element_type;

Json Value(const simdjson::dom::element& element) {
  switch (element.type()) {
    case element_type::OBJECT: {
      Json object = Json::object();
      for (const auto& [name, value] : simdjson::dom::object(element))
        object[std::string(name)] = Value(value);
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

base::Result<JsonMembers> JsonMembers::Parse(std::string_view text) {
  thread_local simdjson::dom::parser parser;  // keeps its memory between two texts
  simdjson::dom::element whole;
  simdjson::dom::object object;
  auto error = parser.parse(text.data(), text.size()).get(whole);
  if (!error) error = whole.get(object);
  if (error) return base::Fail(base::ErrorCode::kCorrupt, simdjson::error_message(error));
  JsonMembers members;
  members.members_.reserve(object.size());
  for (const auto& [name, value] : object) {
    members.marks_ |= Mark(name);
    members.members_.emplace_back(name, Value(value));
  }
  return members;
}

}  // namespace gpuman::jobs
