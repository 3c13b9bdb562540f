#include "sim/mps/words.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace gpuman::sim::mps {
namespace {

std::string Head(const std::string& column) {
  std::string head = column;
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return c == '-' ? ' ' : static_cast<char>(std::toupper(c)); });
  return head;
}

std::string Joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const auto& cell : cells) line += (line.empty() ? "" : ",") + cell;
  return line + "\n";
}

}  // namespace

Words Words::Of(std::string_view line) {
  Words words;
  std::size_t count = 0;
  while (!line.empty()) {
    const auto end = std::min(line.find(kWordEnd), line.size());
    std::string word(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
    const auto equals = word.find('=');
    if (count++ == 0) {
      words.module = word;
    } else if (count == 2 && !word.starts_with("--")) {
      words.verb = word;
    } else if (word.starts_with("--") || equals != std::string::npos) {
      const std::size_t begin = word.starts_with("--") ? 2 : 0;
      const auto key_end = std::min(equals, word.size());
      words.options[word.substr(begin, key_end - begin)] =
          equals == std::string::npos ? "" : word.substr(equals + 1);
    } else {
      words.positional.push_back(word);
    }
  }
  return words;
}

std::optional<std::string> Words::Option(const std::string& key) const {
  const auto it = options.find(key);
  return it == options.end() ? std::nullopt : std::optional(it->second);
}

std::string Words::Unknown(const std::vector<std::string>& known) const {
  for (const auto& [key, value] : options)
    if (std::find(known.begin(), known.end(), key) == known.end()) return key;
  return {};
}

std::string Table(const Words& words, const std::vector<std::string>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  const std::string format = words.Option("format").value_or("table");
  const bool bare = format.ends_with(",noheader");
  std::string text;
  if (format.starts_with("csv")) {
    if (!bare) text += Joined(columns);
    for (const auto& row : rows) text += Joined(row);
    return text;
  }
  std::vector<std::vector<std::string>> lines;
  if (!bare) {
    lines.emplace_back();
    for (const auto& column : columns) lines.back().push_back(Head(column));
  }
  lines.insert(lines.end(), rows.begin(), rows.end());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[i].size());
      text += line[i];
      if (i + 1 < line.size()) text += std::string(width + 2 - line[i].size(), ' ');
    }
    text += "\n";
  }
  return text;
}

std::string Help(const std::string& module, const std::string& verb, unsigned branch) {
  if (module.empty())
    return "Usage: nvidia-cuda-mps-control [options] <module> <verb> [arguments]\n"
           "Options: -d --daemon, -f --foreground, -p --protocol <2|3>, -q --quit, -h --help, -v --version\n"
           "Modules:\n"
           "  server     create, delete, list, set, get\n"
           "  namespace  create, delete, list, set, get\n"
           "  client     list, get, terminate\n";
  if (module == "server" && verb == "set")
    return std::string(
               "server set <name> [--pinned-memory-limit=<limit>] [--active-thread-percentage=<pct>]\n"
               "           [--client-priority=<priority>]") +
           (branch >= 620 ? " [--timeslice-pct=<pct>]\n" : "\n");
  if (module == "server")
    return "server create <name> [--uid=<n>] [--allowed-devices=<devices>]\nserver delete <name> [--force]\n"
           "server list [<name>] [--format=<table|csv>[,noheader]]\nserver set <name> [options]\n"
           "server get <name> <field>\n";
  if (module == "namespace")
    return "namespace create <name> --server=<s>\nnamespace delete <name> --server=<s> [--force]\n"
           "namespace list [<name>] [--server=<s>] [--format=<table|csv>[,noheader]]\n"
           "namespace set <name> --server=<s> [--pinned-memory-limit=<limit>]\n"
           "              [--active-thread-percentage=<pct>] [--client-priority=<priority>]\n"
           "namespace get <name> <server> <field>\n";
  return "client list [--server=<s>] [--all] [--format=<table|csv>[,noheader]]\nclient get <pid> <field>\n"
         "client terminate <pid>\n";
}

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '_';
  });
}

bool IsSize(const std::string& text) {
  const auto unit = std::find_if(text.begin(), text.end(), [](unsigned char c) { return !std::isdigit(c); });
  const std::string rest(unit, text.end());
  return unit != text.begin() && (rest.empty() || rest == "G" || rest == "M" || rest == "K");
}

std::optional<double> PercentageOf(const std::string& text) {
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return percent >= 1 && percent <= 100 ? std::optional(percent) : std::nullopt;
}

}  // namespace gpuman::sim::mps
