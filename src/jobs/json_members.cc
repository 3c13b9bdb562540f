#include "jobs/json_members.h"

namespace gpuman::jobs {
namespace {

constexpr std::size_t kUsualMembers = 24;

}  // namespace

using Json = nlohmann::json;

// Told by the parser what it finds. Containers that are not closed yet stand in open_, the innermost last;
// the object itself is none of them.
class JsonMembers::Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(JsonMembers& into) : members_(into.members_) { members_.reserve(kUsualMembers); }

  std::string problem;

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t& value) override { return Add(Json::binary(std::move(value))); }

  bool start_object(std::size_t) override {
    if (!began_) return began_ = true;
    return Open(Json::object());
  }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool key(string_t& name) override {
    if (open_.empty())
      members_.emplace_back(std::move(name), nullptr);
    else
      open_.back().name = std::move(name);
    return true;
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    problem = error.what();
    return false;
  }

 private:
  struct Container {
    Json value;
    std::string name;  // of the member that comes next, in an object
  };

  bool Open(Json container) {
    if (!began_) return NoObject();
    open_.push_back({std::move(container), {}});
    return true;
  }

  bool Close() {
    if (open_.empty()) return true;  // the object itself
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(value));
  }

  bool Add(Json value) {
    if (!began_) return NoObject();
    if (open_.empty())
      members_.back().second = std::move(value);
    else if (auto& into = open_.back(); into.value.is_array())
      into.value.push_back(std::move(value));
    else
      into.value[into.name] = std::move(value);
    return true;
  }

  bool NoObject() {
    problem = "it is no object";
    return false;
  }

  std::vector<std::pair<std::string, Json>>& members_;
  std::vector<Container> open_;
  bool began_ = false;
};

base::Result<JsonMembers> JsonMembers::Parse(std::string_view text) {
  JsonMembers members;
  Reader reader(members);
  if (Json::sax_parse(text.begin(), text.end(), &reader)) return members;
  return base::Fail(base::ErrorCode::kCorrupt, reader.problem);
}

}  // namespace gpuman::jobs
