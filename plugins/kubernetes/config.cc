#include "plugins/kubernetes/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include <toml++/toml.h>

#include "base/nearest.h"
#include "base/toml_check.h"

namespace gpuman::kubernetes {
namespace {

constexpr std::int64_t kMaxReplicas = 1000;     // more devices have no use, and messages get long
constexpr std::int64_t kHighestPriority = 255;  // the maximum for a job
constexpr base::Bytes kLargest = base::GiB(1024);

class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void Add(const toml::node* node, std::string_view key, std::string_view message) {
    const auto line = node ? node->source().begin.line : 0;
    if (!text_.empty()) text_ += '\n';
    text_ += fmt::format("{}:{}: {}: {}", file_, line, key, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string file_, text_;
};

// Takes values out of one table and reports the keys that no call took.
class Table {
 public:
  Table(const toml::table& table, std::string name, Problems& problems)
      : table_(table), name_(std::move(name)), problems_(problems) {}

  const toml::node* Take(std::string_view key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  std::string Path(std::string_view key) const {
    return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
  }
  void Bad(std::string_view key, std::string_view message) {
    const auto* node = table_.get(key);
    problems_.Add(node ? node : &table_, Path(key), message);
  }

  void Text(std::string_view key, std::string& target) {
    const auto* node = Take(key);
    if (!node) return;
    if (const auto text = node->value_exact<std::string>(); text && !text->empty())
      target = *text;
    else
      Bad(key, "has to be a text that is not empty");
  }
  void AbsolutePath(std::string_view key, std::string& target) {
    Text(key, target);
    if (Take(key) && !target.starts_with('/')) Bad(key, "has to be an absolute path");
  }
  void AbsolutePath(std::string_view key, std::filesystem::path& target) {
    std::string text = target.string();
    AbsolutePath(key, text);
    target = text;
  }
  void Flag(std::string_view key, bool& target) {
    const auto* node = Take(key);
    if (!node) return;
    if (const auto flag = node->value_exact<bool>())
      target = *flag;
    else
      Bad(key, "has to be true or false");
  }
  void Size(std::string_view key, base::Bytes& target) {
    const auto* node = Take(key);
    if (!node) return;
    const auto text = node->value_exact<std::string>();
    if (!text) return Bad(key, "has to be a size as text, such as \"20GiB\"");
    const auto size = base::ParseBytes(*text);
    if (!size) return Bad(key, size.error().message);
    if (*size > kLargest) return Bad(key, "is more than " + base::FormatBytes(kLargest));
    target = *size;
  }
  void Count(std::string_view key, std::uint32_t& target, std::int64_t least, std::int64_t most) {
    const auto* node = Take(key);
    if (!node) return;
    const auto number = node->value_exact<std::int64_t>();
    if (!number || *number < least || *number > most)
      return Bad(key, fmt::format("has to be a whole number from {} to {}", least, most));
    target = static_cast<std::uint32_t>(*number);
  }
  // Texts and numbers may name GPUs.
  void Names(std::string_view key, std::vector<std::string>& target) {
    const auto* node = Take(key);
    if (!node) return;
    const auto* list = node->as_array();
    if (!list || list->empty()) return Bad(key, "has to be a list that is not empty");
    for (const auto& element : *list) {
      if (const auto text = element.value_exact<std::string>(); text && !text->empty())
        target.push_back(*text);
      else if (const auto number = element.value_exact<std::int64_t>(); number && *number >= 0)
        target.push_back(std::to_string(*number));
      else
        return Bad(key, "has to be a list of texts");
    }
  }

  void RefuseUnknown() {
    for (const auto& [key, node] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      const auto near = base::Nearest(key.str(), known_);
      problems_.Add(&node, Path(key.str()),
                    near ? fmt::format("is not known; did you mean {}?", *near) : "is not known");
    }
  }

 private:
  const toml::table& table_;
  const std::string name_;
  Problems& problems_;
  std::vector<std::string> known_;
};

// The form of an extended resource in Kubernetes: a domain that is not Kubernetes' own, a slash, a name of at
// most 63 characters.
bool IsResourceName(std::string_view name) {
  const auto slash = name.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash > 253) return false;
  const auto domain = name.substr(0, slash), rest = name.substr(slash + 1);
  if (rest.empty() || rest.size() > 63 || domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
    return false;
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto is_part = [&](char c) {
    return is_plain(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
  };
  return std::all_of(domain.begin(), domain.end(),
                     [&](char c) { return is_plain(c) || c == '-' || c == '.'; }) &&
         std::all_of(rest.begin(), rest.end(), is_part) && rest.front() != '-' && rest.back() != '-';
}

std::optional<ResourceKind> KindOf(std::string_view word) {
  if (word == "whole") return ResourceKind::kWhole;
  if (word == "memory") return ResourceKind::kMemory;
  if (word == "slice") return ResourceKind::kSlice;
  if (word == "shared") return ResourceKind::kShared;
  if (word == "mig") return ResourceKind::kMig;
  return std::nullopt;
}

Resource ReadResource(const toml::table& table, Problems& problems) {
  Table in(table, "resource", problems);
  Resource resource;
  in.Text("name", resource.name);
  if (!IsResourceName(resource.name))
    in.Bad("name",
           fmt::format("'{}' is no name of an extended resource, such as gpuman.io/gpu", resource.name));
  std::string word;
  in.Text("kind", word);
  const auto kind = KindOf(word);
  if (!kind)
    in.Bad("kind", fmt::format("'{}' is none of whole, memory, slice, shared, mig", word));
  else
    resource.kind = *kind;
  in.Names("gpus", resource.gpus);
  if (resource.kind == ResourceKind::kSlice) {
    in.Size("size", resource.size);
    if (!table.contains("size")) in.Bad("size", "is missing: how much memory a slice has");
  }
  if (resource.kind == ResourceKind::kMemory || resource.kind == ResourceKind::kSlice)
    in.Size("reserve", resource.reserve);
  if (resource.kind == ResourceKind::kShared) {
    in.Count("replicas", resource.replicas, 2, kMaxReplicas);
    if (!table.contains("replicas")) in.Bad("replicas", "is missing: how many containers share a GPU");
  }
  if (resource.kind == ResourceKind::kShared && table.contains("compute")) {
    std::string text;
    in.Text("compute", text);
    if (const auto share = spec::ParseComputeShare(text))
      resource.compute = *share;
    else
      in.Bad("compute", fmt::format("{}; it is {}", share.error().message, share.error().hint));
  }
  if (table.contains("priority")) {
    std::uint32_t priority = 0;
    in.Count("priority", priority, 0, kHighestPriority);
    resource.priority = static_cast<int>(priority);
  }
  if (resource.kind == ResourceKind::kMig) {
    in.Text("profile", resource.profile);
    if (resource.profile.empty()) in.Bad("profile", "is missing: the instances' profile, such as 1g.18gb");
  }
  in.RefuseUnknown();
  return resource;
}

// Refuses what is wrong on any node. MakePools (pools.h) finds a GPU that is named in two ways.
void RefuseOverlap(const std::vector<Resource>& resources, const toml::node& list, Problems& problems) {
  std::map<std::string, std::string> owner;  // by GPU as named, or by profile
  std::set<std::string> names;
  for (const auto& resource : resources) {
    if (!names.insert(resource.name).second)
      problems.Add(&list, "resource.name", fmt::format("{} stands there twice", resource.name));
    const std::string space =
        resource.kind == ResourceKind::kMig ? "mig " + resource.profile + " of GPU " : "GPU ";
    for (const auto& gpu : resource.gpus) {
      const auto [at, is_new] = owner.emplace(space + gpu, resource.name);
      if (!is_new)
        problems.Add(&list, "resource.gpus",
                     fmt::format("{}{} is in {} and in {}; it can be in one alone", space, gpu, at->second,
                                 resource.name));
    }
    if (!resource.gpus.empty()) continue;
    const auto rest = resource.kind == ResourceKind::kMig ? space + "(rest)" : std::string("(rest)");
    const auto [at, is_new] = owner.emplace(rest, resource.name);
    if (!is_new)
      problems.Add(&list, "resource.gpus",
                   fmt::format("{} and {} both take what is left; name the GPUs of one of them", at->second,
                               resource.name));
  }
}

void ReadContainer(const toml::table& table, Config& config, Problems& problems) {
  Table in(table, "container", problems);
  if (table.contains("devices")) {
    std::vector<std::string> words;
    in.Names("devices", words);
    config.handing = {};
    for (const auto& word : words) {
      if (word == "environment")
        config.handing.environment = true;
      else if (word == "cdi")
        config.handing.cdi = true;
      else if (word == "nodes")
        config.handing.nodes = true;
      else
        in.Bad("devices", fmt::format("'{}' is none of environment, cdi, nodes", word));
    }
  }
  in.Text("cdi_kind", config.cdi_kind);
  in.Flag("limits", config.limits);
  in.Flag("required", config.required);
  in.Flag("preload", config.preload);
  if (config.required && !config.limits) in.Bad("required", "needs limits");
  if (const auto* node = in.Take("environment")) {
    const auto* variables = node->as_table();
    if (!variables) in.Bad("environment", "has to be a table");
    for (const auto& [name, value] : variables ? *variables : toml::table{}) {
      const auto text = value.value_exact<std::string>();
      if (!text) in.Bad("environment", fmt::format("{} has to be a text", name.str()));
      config.environment[std::string(name.str())] = text.value_or("");
    }
  }
  if (const auto* node = in.Take("mount")) {
    const auto* list = node->as_array();
    if (!list || !list->is_homogeneous<toml::table>())
      return in.Bad("mount", "has to be written [[container.mount]]");
    for (const auto& element : *list) {
      Table mount(*element.as_table(), "container.mount", problems);
      MountRule rule;
      mount.AbsolutePath("host", rule.host);
      mount.AbsolutePath("container", rule.container);
      mount.Flag("writable", rule.writable);
      if (rule.host.empty() || rule.container.empty())
        mount.Bad("host", "host and container have to be there");
      mount.RefuseUnknown();
      config.mounts.push_back(std::move(rule));
    }
  }
  in.RefuseUnknown();
}

void ReadRoot(const toml::table& root, Config& config, Problems& problems) {
  Table in(root, "", problems);
  const auto section = [&](const char* name, auto read) {
    const auto* node = in.Take(name);
    if (!node) return;
    if (const auto* table = node->as_table())
      read(*table);
    else
      in.Bad(name, fmt::format("has to be a table, [{}]", name));
  };
  section("kubelet", [&](const toml::table& table) {
    Table kubelet(table, "kubelet", problems);
    kubelet.AbsolutePath("directory", config.kubelet);
    kubelet.AbsolutePath("pod_resources", config.pod_resources);
    kubelet.RefuseUnknown();
  });
  section("gpumand", [&](const toml::table& table) {
    Table gpumand(table, "gpumand", problems);
    gpumand.AbsolutePath("socket", config.gpumand);
    gpumand.RefuseUnknown();
  });
  section("container", [&](const toml::table& table) { ReadContainer(table, config, problems); });
  const auto* node = in.Take("resource");
  const auto* list = node ? node->as_array() : nullptr;
  if (!list || list->empty() || !list->is_homogeneous<toml::table>()) {
    in.Bad("resource", "there has to be at least one, written [[resource]]");
  } else {
    for (const auto& element : *list) config.resources.push_back(ReadResource(*element.as_table(), problems));
    RefuseOverlap(config.resources, *list, problems);
  }
  in.RefuseUnknown();
}

}  // namespace

base::Result<Config> ParseConfig(std::string_view text, const std::string& file) {
  const auto mistake = base::FindTomlMistake(text);
  toml::table root;
  try {
    root = toml::parse(base::Readable(text, mistake), file);
  } catch (const toml::parse_error& error) {
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
  }
  if (mistake)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("{}:{}: {}", file, mistake->line, mistake->message));
  Problems problems(file);
  Config config;
  ReadRoot(root, config, problems);
  if (!problems.text().empty()) return base::Fail(base::ErrorCode::kInvalidArgument, problems.text());
  return config;
}

}  // namespace gpuman::kubernetes
