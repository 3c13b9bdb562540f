#include "keeper/json.h"

#include <array>

#include "base/utf8.h"

namespace gpuman::keeper {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool DecodeHex(std::string_view hex, std::string& out) {
  if (hex.size() % 2 != 0) return false;
  out.clear();
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto high = kHexDigits.find(hex[i]);
    const auto low = kHexDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    out += static_cast<char>(high << 4 | low);
  }
  return true;
}

}  // namespace

Json ToJson(std::string_view bytes) {
  if (base::IsUtf8(bytes)) return Json(std::string(bytes));
  std::string hex;
  for (const char c : bytes) {
    hex += kHexDigits[static_cast<unsigned char>(c) >> 4];
    hex += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  return Json{{"hex", std::move(hex)}};
}

bool FromJson(const Json& json, std::string& out) {
  if (json.is_string()) {
    out = json.get_ref<const std::string&>();
    return true;
  }
  if (!json.is_object()) return false;
  const auto hex = json.find("hex");
  return hex != json.end() && hex->is_string() && DecodeHex(hex->get_ref<const std::string&>(), out);
}

bool FromJson(const Json& json, std::filesystem::path& out) {
  std::string text;
  if (!FromJson(json, text)) return false;
  out = std::move(text);
  return true;
}

Json ToJson(const base::ProcessId& process) {
  return {{"pid", process.pid}, {"start_time", process.start_time}};
}

bool FromJson(const Json& json, base::ProcessId& out) {
  Fields fields(json);
  fields.Need("pid", out.pid);
  fields.Need("start_time", out.start_time);
  return fields.ok();
}

bool FromJson(const Json& json, bool& out) {
  if (!json.is_boolean()) return false;
  out = json.get<bool>();
  return true;
}

bool FromJson(const Json& json, base::Bytes& out) { return FromJson(json, out.count); }

const Json* Fields::Find(const char* name) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

base::Result<> Fields::Finish(std::string_view what) const {
  if (!problem_) return {};
  return base::Fail(base::ErrorCode::kCorrupt, std::string(what) + ": " + *problem_);
}

base::Result<Json> ParseJson(std::string_view text, std::string_view what) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return base::Fail(base::ErrorCode::kCorrupt, std::string(what) + " is not JSON");
  return json;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace gpuman::keeper
