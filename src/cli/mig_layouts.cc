#include "cli/mig_layouts.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

// Only this file of the program reads TOML: a shared library would cost time at each start.
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "base/nearest.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "base/toml_check.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

constexpr int kMaxOfOne = 64;

// An exception that leaves the walk over a document; the function that begins the walk catches it.
struct Problem {
  std::size_t line = 0;
  std::string message;
};

[[noreturn]] void Refuse(std::size_t line, std::string message) { throw Problem{line, std::move(message)}; }

[[noreturn]] void RefuseKey(std::size_t line, const std::string& key, const std::vector<std::string>& known) {
  const auto nearest = base::Nearest(key, known);
  Refuse(line, fmt::format("unknown key '{}'; {}", key,
                           nearest ? fmt::format("did you mean {}?", *nearest)
                                   : fmt::format("there are {}", fmt::join(known, ", "))));
}

// --- TOML ---

std::size_t LineOf(const toml::node& node) { return node.source().begin.line; }

std::vector<std::string> TomlWords(const toml::node& node, const char* key, bool with_numbers) {
  std::vector<std::string> words;
  const auto add = [&](const toml::node& each) {
    if (const auto word = each.value_exact<std::string>())
      words.push_back(*word);
    else if (const auto number = each.value_exact<std::int64_t>(); number && with_numbers && *number >= 0)
      words.push_back(std::to_string(*number));
    else
      Refuse(LineOf(each),
             fmt::format("{} takes {}", key,
                         with_numbers ? "indices and UUIDs such as [0, \"GPU-93f6e897\"]"
                                      : "a list of words such as [\"3g.71gb\", \"2x1g.18gb\"]"));
  };
  if (const auto* list = node.as_array())
    for (const auto& each : *list) add(each);
  else
    add(node);
  return words;
}

api::MigConfigSpec TomlDevices(const toml::node& node) {
  const auto* const table = node.as_table();
  if (table == nullptr) Refuse(LineOf(node), "a layout is a table, [[layouts.NAME]]");
  api::MigConfigSpec devices;
  for (const auto& [key, value] : *table) {
    if (key == "gpus")
      devices.gpus = TomlWords(value, "gpus", true);
    else if (key == "device_filter")
      devices.filters = TomlWords(value, "device_filter", false);
    else if (key == "instances")
      devices.instances = TomlWords(value, "instances", false);
    else if (key == "enabled" && value.is_boolean())
      devices.enabled = value.as_boolean()->get();
    else if (key == "enabled")
      Refuse(LineOf(value), "enabled takes true or false");
    else
      RefuseKey(LineOf(value), std::string(key.str()), {"gpus", "device_filter", "enabled", "instances"});
  }
  return devices;
}

MigLayouts FromToml(std::string_view text) {
  const auto mistake = base::FindTomlMistake(text);
  const toml::table document = toml::parse(base::Readable(text, mistake));
  if (mistake) Refuse(mistake->line, mistake->message);
  MigLayouts layouts;
  for (const auto& [key, value] : document)
    if (key != "layouts") RefuseKey(LineOf(value), std::string(key.str()), {"layouts"});
  const auto* const named = document["layouts"].as_table();
  if (named == nullptr) Refuse(0, "it has no [[layouts.NAME]]");
  for (const auto& [name, value] : *named) {
    auto& devices = layouts[std::string(name.str())];
    if (const auto* list = value.as_array())
      for (const auto& each : *list) devices.push_back(TomlDevices(each));
    else
      devices.push_back(TomlDevices(value));
  }
  return layouts;
}

// --- YAML ---

std::size_t LineOf(const YAML::Node& node) {
  const auto mark = node.Mark();
  return mark.is_null() ? 0 : static_cast<std::size_t>(mark.line) + 1;
}

std::string Scalar(const YAML::Node& node, const char* what) {
  if (!node.IsScalar()) Refuse(LineOf(node), fmt::format("{} takes one word", what));
  return node.Scalar();
}

int Number(const YAML::Node& node, const char* what, int least, int most) {
  const std::string text = Scalar(node, what);
  const auto number = base::ParseNumber<int>(text);
  if (!number || *number < least || *number > most)
    Refuse(LineOf(node), fmt::format("{}: '{}' is no number from {} to {}", what, text, least, most));
  return *number;
}

std::vector<std::string> PartedGpus(const YAML::Node& node) {
  if (node.IsScalar() && node.Scalar() == "all") return {};
  if (!node.IsSequence() || node.size() == 0)
    Refuse(LineOf(node), "devices takes all, or a list of indices such as [0, 1]");
  std::vector<std::string> gpus;
  for (const auto& each : node) gpus.push_back(std::to_string(Number(each, "devices", 0, 1023)));
  return gpus;
}

std::vector<std::string> PartedFilters(const YAML::Node& node) {
  if (!node.IsSequence()) return {Scalar(node, "device-filter")};
  std::vector<std::string> filters;
  for (const auto& each : node) filters.push_back(Scalar(each, "device-filter"));
  return filters;
}

std::vector<std::string> PartedInstances(const YAML::Node& node) {
  std::vector<std::string> instances;
  if (node.IsNull()) return instances;
  if (!node.IsMap()) Refuse(LineOf(node), "mig-devices takes profiles with numbers, such as \"1g.10gb\": 7");
  for (const auto& each : node) {
    const std::string profile = Scalar(each.first, "mig-devices");
    const int count = Number(each.second, "mig-devices", 0, kMaxOfOne);
    if (count == 1) instances.push_back(profile);
    if (count > 1) instances.push_back(fmt::format("{}x{}", count, profile));
  }
  return instances;
}

api::MigConfigSpec PartedDevices(const YAML::Node& node) {
  if (!node.IsMap()) Refuse(LineOf(node), "an entry has devices, mig-enabled and mig-devices");
  api::MigConfigSpec devices;
  bool has_devices = false, has_enabled = false;
  for (const auto& each : node) {
    const std::string key = Scalar(each.first, "a key");
    if (key == "devices") {
      devices.gpus = PartedGpus(each.second);
      has_devices = true;
    } else if (key == "device-filter") {
      devices.filters = PartedFilters(each.second);
    } else if (key == "mig-enabled") {
      const std::string word = Scalar(each.second, "mig-enabled");
      if (word != "true" && word != "false") Refuse(LineOf(each.second), "mig-enabled takes true or false");
      devices.enabled = word == "true";
      has_enabled = true;
    } else if (key == "mig-devices") {
      devices.instances = PartedInstances(each.second);
    } else {
      RefuseKey(LineOf(each.first), key, {"devices", "device-filter", "mig-enabled", "mig-devices"});
    }
  }
  if (!has_devices) Refuse(LineOf(node), "devices is missing");
  if (!has_enabled) Refuse(LineOf(node), "mig-enabled is missing");
  return devices;
}

MigLayouts FromParted(std::string_view text) {
  const YAML::Node document = YAML::Load(std::string(text));
  if (!document.IsMap()) Refuse(LineOf(document), "it has no version and mig-configs");
  MigLayouts layouts;
  bool has_version = false;
  for (const auto& each : document) {
    const std::string key = Scalar(each.first, "a key");
    if (key == "version") {
      if (Scalar(each.second, "version") != "v1") Refuse(LineOf(each.second), "version takes v1");
      has_version = true;
      continue;
    }
    if (key != "mig-configs") RefuseKey(LineOf(each.first), key, {"version", "mig-configs"});
    if (!each.second.IsMap()) Refuse(LineOf(each.second), "mig-configs takes names with lists");
    for (const auto& config : each.second) {
      const std::string name = Scalar(config.first, "a name");
      if (!config.second.IsSequence() || config.second.size() == 0)
        Refuse(LineOf(config.second), fmt::format("{} takes a list of entries", name));
      for (const auto& entry : config.second) layouts[name].push_back(PartedDevices(entry));
    }
  }
  if (!has_version) Refuse(0, "version is missing: version: v1");
  return layouts;
}

bool IsParted(std::string_view text) {
  return text.starts_with("mig-configs:") || text.find("\nmig-configs:") != std::string_view::npos ||
         text.starts_with("version: v");
}

base::Error At(const std::string& file, std::size_t line, std::string_view message) {
  return {ErrorCode::kInvalidArgument,
          line == 0 ? fmt::format("{}: {}", file, message) : fmt::format("{}:{}: {}", file, line, message)};
}

// Splits "2x1g.18gb" into the number and the rest.
std::pair<unsigned, std::string> Count(const std::string& instance) {
  std::string_view rest = instance;
  const auto count = base::TakeNumber<unsigned>(rest);
  if (!count || !rest.starts_with('x')) return {1, instance};
  return {*count, std::string(rest.substr(1))};
}

std::string Quoted(const std::vector<std::string>& words, bool plain_numbers) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const auto& word : words)
    quoted.push_back(plain_numbers && base::AreDigits(word) ? word : '"' + word + '"');
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace

base::Result<MigLayouts> ParseMigLayouts(std::string_view text, const std::string& file) {
  try {
    return IsParted(text) ? FromParted(text) : FromToml(text);
  } catch (const Problem& problem) {
    return base::Fail(At(file, problem.line, problem.message));
  } catch (const toml::parse_error& error) {
    return base::Fail(At(file, error.source().begin.line, error.description()));
  } catch (const YAML::Exception& error) {
    return base::Fail(
        At(file, error.mark.is_null() ? 0 : static_cast<std::size_t>(error.mark.line) + 1, error.msg));
  }
}

std::string WriteMigToml(const std::string& name, const std::vector<api::MigConfigSpec>& devices) {
  std::string text;
  for (const auto& each : devices) {
    text += fmt::format("{}[[layouts.\"{}\"]]\n", text.empty() ? "" : "\n", name);
    if (!each.gpus.empty()) text += fmt::format("gpus = {}\n", Quoted(each.gpus, true));
    if (!each.filters.empty()) text += fmt::format("device_filter = {}\n", Quoted(each.filters, false));
    if (each.enabled)
      text += fmt::format("instances = {}\n", Quoted(each.instances, false));
    else
      text += "enabled = false\n";
  }
  return text;
}

std::string WriteMigParted(const std::string& name, const std::vector<api::MigConfigSpec>& devices) {
  std::string text = fmt::format("version: v1\nmig-configs:\n  \"{}\":\n", name);
  for (const auto& each : devices) {
    text += fmt::format("    - devices: {}\n", each.gpus.empty() ? "all" : Quoted(each.gpus, true));
    if (!each.filters.empty()) text += fmt::format("      device-filter: {}\n", Quoted(each.filters, false));
    text += fmt::format("      mig-enabled: {}\n", each.enabled);
    if (!each.enabled) continue;
    text += each.instances.empty() ? "      mig-devices: {}\n" : "      mig-devices:\n";
    for (const auto& instance : each.instances) {
      const auto [count, profile] = Count(instance);
      text += fmt::format("        \"{}\": {}\n", profile, count);
    }
  }
  return text;
}

}  // namespace gpuman::cli
