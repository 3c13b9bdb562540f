#include "mig/record.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace gpuman::mig {
namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;

std::optional<Wanted> WantedOf(const Json& json) {
  if (json.size() != 3 || json.at("v") != kVersion) return std::nullopt;
  Wanted wanted{json.at("enabled").get<bool>(), {}};
  auto items = ParseItems(json.at("instances").get<std::vector<std::string>>());
  if (!items) return std::nullopt;
  wanted.items = std::move(*items);
  return wanted;
}

}  // namespace

std::string SerializeRecord(const Wanted& wanted) {
  Json items = Json::array();
  for (const auto& item : wanted.items) items.push_back(FormatItem(item));
  return Json{{"v", kVersion}, {"enabled", wanted.enabled}, {"instances", std::move(items)}}.dump();
}

base::Result<Wanted> ParseRecord(std::string_view text) {
  std::optional<Wanted> wanted;
  try {
    wanted = WantedOf(Json::parse(text));
  } catch (const Json::exception&) {
    wanted.reset();
  }
  if (!wanted) return base::Fail(base::ErrorCode::kCorrupt, "the stored MIG layout of a GPU cannot be read");
  return std::move(*wanted);
}

}  // namespace gpuman::mig
