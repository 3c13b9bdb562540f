#include "daemon/config/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/config/config.h"
#include "daemon/config/toml_reader.h"

namespace gpuman::daemon {
namespace {

constexpr const char* kProfiles = "device.profiles";

// A setting's value as it may be written: true, 250, "250W".
std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get() ? "on" : "off";
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  return std::nullopt;
}

std::string KnownKeys() {
  std::vector<std::string_view> words{"summary"};
  for (const auto setting : device::AllSettings())
    if (device::MayBeInProfile(setting)) words.push_back(ToString(setting));
  return fmt::format("{}", fmt::join(words, ", "));
}

// nullopt: the profile is wrong, and `in` has the problem.
std::optional<device::Profile> ReadProfile(TomlReader& in, std::string_view name, const toml::node& node) {
  const auto key = fmt::format("{}.{}", kProfiles, name);
  const auto* const table = node.as_table();
  const auto fail = [&](const toml::node* at, const std::string& where, std::string message) {
    in.Problem(at, where, std::move(message));
    return std::nullopt;
  };
  if (!table) return fail(&node, key, fmt::format("is written as [{}]", key));
  if (!device::IsProfileName(name))
    return fail(&node, key, "is no name of a profile: letters, digits, '.', '_' and '-' are");
  device::Profile profile{std::string(name), "", {}, false};
  for (const auto& [word, value] : *table) {
    const auto where = fmt::format("{}.{}", key, word.str());
    const auto text = TextOf(value);
    if (!text) return fail(&value, where, "is neither text, nor a whole number, nor true or false");
    if (word == "summary") {
      profile.summary = *text;
      continue;
    }
    const auto setting = device::SettingFromString(word.str());
    if (!setting || !device::MayBeInProfile(*setting))
      return fail(&value, where, "there is no such key; there are " + KnownKeys());
    auto wanted = device::ParseDesiredSetting(*setting, *text);
    if (!wanted) return fail(&value, where, wanted.error().message);
    profile.desired.emplace(*setting, std::move(*wanted));
  }
  if (profile.desired.empty()) return fail(&node, key, "sets nothing; there are " + KnownKeys());
  return profile;
}

}  // namespace

void ReadDevice(TomlReader& in, Config& config) {
  in.Flag("device.mend_drift", config.device.mend_drift);
  in.Time("device.check", config.device.check, base::Millis(100), base::Millis(86'400'000));
  in.Time("device.call_limit", config.device.call_limit, base::Millis(100), base::Millis(600'000));
  const auto* const node = in.Take(kProfiles);
  if (!node) return;
  const auto* const table = node->as_table();
  if (!table)
    return in.Problem(node, kProfiles, "is written as [device.profiles.NAME], once for each profile");
  config.device.profiles.clear();
  for (const auto& [name, entry] : *table)
    if (auto profile = ReadProfile(in, name.str(), entry))
      config.device.profiles.push_back(std::move(*profile));
}

}  // namespace gpuman::daemon
