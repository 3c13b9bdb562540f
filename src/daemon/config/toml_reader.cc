#include "daemon/config/toml_reader.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"
#include "base/text.h"

namespace gpuman::daemon {
namespace {

const char* TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

// A text or a number as text, so that `rest = 5` and `rest = "5s"` both read.
std::optional<std::string> Plain(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  return std::nullopt;
}

}  // namespace

const toml::node* TomlReader::Take(std::string_view key) {
  known_.emplace_back(key);
  const toml::node* node = &root_;
  for (std::string_view rest = key; !rest.empty();) {
    const auto part = base::TakeUntil(rest, '.');
    const auto* table = node->as_table();
    node = table ? table->get(part) : nullptr;
    if (!node) return nullptr;
  }
  taken_.insert(node);
  return node;
}

void TomlReader::Problem(const toml::node* node, std::string_view key, std::string message) {
  const auto line = node ? static_cast<std::uint32_t>(node->source().begin.line) : 0;
  problems_.push_back({file_, line, std::string(key), std::move(message)});
}

void TomlReader::Text(const char* key, std::string& target, EmptyText empty) {
  const auto* node = Take(key);
  if (!node) return;
  const auto text = node->value_exact<std::string>();
  if (!text) return Problem(node, key, fmt::format("takes a text, not {}", TypeName(*node)));
  if (text->empty() && empty == EmptyText::kRefused) return Problem(node, key, "is empty");
  target = *text;
}

void TomlReader::Path(const char* key, std::filesystem::path& target) {
  std::string text;
  const auto* node = root_.contains(key) ? root_.get(key) : nullptr;
  Text(key, text);
  if (text.empty()) return;
  if (text.front() != '/') return Problem(node, key, fmt::format("'{}' is not an absolute path", text));
  target = text;
}

void TomlReader::Flag(const char* key, bool& target) {
  const auto* node = Take(key);
  if (!node) return;
  const auto flag = node->value_exact<bool>();
  if (!flag) return Problem(node, key, fmt::format("takes true or false, not {}", TypeName(*node)));
  target = *flag;
}

void TomlReader::Count(const char* key, std::uint32_t& target, std::int64_t least, std::int64_t most) {
  const auto* node = Take(key);
  if (!node) return;
  const auto number = node->value_exact<std::int64_t>();
  if (!number) return Problem(node, key, fmt::format("takes a whole number, not {}", TypeName(*node)));
  if (*number < least || *number > most)
    return Problem(node, key, fmt::format("{} is not between {} and {}", *number, least, most));
  target = static_cast<std::uint32_t>(*number);
}

base::Result<base::Millis> TomlReader::TimeIn(const toml::node& node, base::Millis least, base::Millis most) {
  const auto fail = [](std::string message) {
    return base::Fail(base::ErrorCode::kInvalidArgument, std::move(message));
  };
  const auto text = Plain(node);
  if (!text) return fail(fmt::format("takes a time such as \"30s\", not {}", TypeName(node)));
  const auto time = base::ParseDuration(*text);
  if (!time) return fail(time.error().message + "; " + time.error().hint);
  if (*time < least || *time > most)
    return fail(fmt::format("{} is not between {} and {}", base::FormatDuration(*time),
                            base::FormatDuration(least), base::FormatDuration(most)));
  return *time;
}

void TomlReader::Time(const char* key, base::Millis& target, base::Millis least, base::Millis most) {
  const auto* node = Take(key);
  if (!node) return;
  const auto time = TimeIn(*node, least, most);
  if (!time) return Problem(node, key, time.error().message);
  target = *time;
}

void TomlReader::TimeOrNeverIn(const toml::node& node, const std::string& key,
                               std::optional<base::Millis>& target, base::Millis least, base::Millis most) {
  if (Plain(node) == "never") return target.reset();
  const auto time = TimeIn(node, least, most);
  if (!time) return Problem(&node, key, time.error().message + "; or \"never\"");
  target = *time;
}

void TomlReader::TimeOrNever(const char* key, std::optional<base::Millis>& target, base::Millis least,
                             base::Millis most) {
  if (const auto* const node = Take(key)) TimeOrNeverIn(*node, key, target, least, most);
}

void TomlReader::TimesOrNever(const char* key, std::map<std::string, std::optional<base::Millis>>& target,
                              base::Millis least, base::Millis most) {
  const auto* node = Take(key);
  if (!node) return;
  const auto* table = node->as_table();
  if (!table) return Problem(node, key, fmt::format("takes a table, not {}", TypeName(*node)));
  for (const auto& [name, value] : *table)
    TimeOrNeverIn(value, fmt::format("{}.{}", key, name.str()), target[std::string(name.str())], least, most);
}

void TomlReader::Size(const char* key, base::Bytes& target, base::Bytes least, base::Bytes most) {
  const auto* node = Take(key);
  if (!node) return;
  const auto text = Plain(*node);
  if (!text)
    return Problem(node, key, fmt::format("takes a size such as \"64MiB\", not {}", TypeName(*node)));
  const auto size = base::ParseBytes(*text);
  if (!size) return Problem(node, key, size.error().message + "; " + size.error().hint);
  if (*size < least || *size > most)
    return Problem(node, key,
                   fmt::format("{} is not between {} and {}", base::FormatBytes(*size),
                               base::FormatBytes(least), base::FormatBytes(most)));
  target = *size;
}

void TomlReader::Spec(const char* key, std::optional<base::SizeSpec>& target) {
  const auto* node = Take(key);
  if (!node) return;
  const auto text = Plain(*node);
  if (!text) return Problem(node, key, fmt::format("takes a size such as \"1GiB\", not {}", TypeName(*node)));
  if (*text == "none") {
    target.reset();
    return;
  }
  const auto size = base::ParseSize(*text);
  if (!size) return Problem(node, key, size.error().message + "; or write \"none\"");
  target = *size;
}

void TomlReader::Names(const char* key, std::vector<std::string>& target) {
  const auto* node = Take(key);
  if (!node) return;
  const auto* list = node->as_array();
  if (!list) return Problem(node, key, fmt::format("takes a list of texts, not {}", TypeName(*node)));
  std::vector<std::string> names;
  for (const auto& entry : *list) {
    const auto name = entry.value_exact<std::string>();
    if (!name || name->empty()) return Problem(&entry, key, "takes a list of texts that are not empty");
    names.push_back(*name);
  }
  target = std::move(names);
}

void TomlReader::Specs(const char* key, std::map<std::string, base::SizeSpec>& target) {
  const auto* node = Take(key);
  if (!node) return;
  const auto* table = node->as_table();
  if (!table) return Problem(node, key, fmt::format("takes a table, not {}", TypeName(*node)));
  for (const auto& [name, value] : *table) {
    const auto full = fmt::format("{}.{}", key, name.str());
    const auto text = Plain(value);
    const auto size = text ? base::ParseSize(*text) : base::Result<base::SizeSpec>(base::SizeSpec{});
    if (!text)
      Problem(&value, full, fmt::format("takes a size such as \"1GiB\", not {}", TypeName(value)));
    else if (!size)
      Problem(&value, full, size.error().message);
    else
      target[std::string(name.str())] = *size;
  }
}

void TomlReader::RefuseUnknown() { RefuseUnknownIn(root_, ""); }

void TomlReader::RefuseUnknownIn(const toml::table& table, const std::string& prefix) {
  for (const auto& [name, node] : table) {
    if (taken_.contains(&node)) continue;
    const std::string key = prefix + std::string(name.str());
    const bool holds_known = std::any_of(
        known_.begin(), known_.end(), [&](const std::string& known) { return known.starts_with(key + "."); });
    if (const auto* inner = node.as_table(); inner && holds_known) {
      RefuseUnknownIn(*inner, key + ".");
      continue;
    }
    Problem(&node, key,
            holds_known ? fmt::format("is a table, not {}", TypeName(node))
                        : "there is no such key" + Nearest(key));
  }
}

std::string TomlReader::Nearest(const std::string& key) const {
  const auto nearest = base::Nearest(key, known_);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : std::string();
}

}  // namespace gpuman::daemon
