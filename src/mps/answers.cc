#include "mps/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::mps {
namespace {

using base::ErrorCode;
using base::Fail;

// One line of the answer, limited in length.
std::string OneLine(std::string_view answer) {
  std::string text(base::Trimmed(answer).substr(0, 200));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }, ' ');
  return text;
}

tl::unexpected<base::Error> Refusal(std::string_view answer) {
  return Fail(ErrorCode::kConflict, fmt::format("nvidia-cuda-mps-control answers: {}", OneLine(answer)));
}

// "8192M", "8G", "8GB", "4096".
std::optional<base::Bytes> SizeOf(std::string_view text) {
  if (text.ends_with('B') || text.ends_with('b')) text.remove_suffix(1);
  std::uint64_t unit = 1;
  constexpr std::string_view kUnits = "KMGT";
  if (!text.empty())
    if (const auto at = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
        at != std::string_view::npos) {
      unit = std::uint64_t{1} << (10 * (at + 1));
      text.remove_suffix(1);
    }
  const auto number = base::ParseNumber<std::uint64_t>(base::Trimmed(text));
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return base::Bytes{*number * unit};
}

// "Server Status", "server_status" and "server-status" are one column.
std::string ColumnName(std::string_view cell) {
  std::string name = base::LowerCase(cell);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == '_'; }, '-');
  return name;
}

using Cells = std::vector<std::string_view>;

Cells CellsOf(std::string_view line) {
  Cells cells;
  for (;;) {
    const auto comma = line.find(',');
    cells.push_back(base::Trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

// A table with commas between its cells.
class CsvTable {
 public:
  // `columns`: in the order of a table without a head. `needed`: how many of them, from the first, each row
  // has.
  static base::Result<CsvTable> Read(std::string_view answer, std::vector<std::string> columns,
                                     std::size_t needed) {
    CsvTable table;
    table.columns_ = std::move(columns);
    const std::vector<std::string> wanted(table.columns_.begin(),
                                          table.columns_.begin() + static_cast<std::ptrdiff_t>(needed));
    for (std::string_view rest = answer; !rest.empty();) {
      const auto line = base::Trimmed(base::TakeUntil(rest, '\n'));
      if (line.empty()) continue;
      auto cells = CellsOf(line);
      if (!table.has_head_ && table.rows_.empty() && ColumnName(cells.front()) == wanted.front()) {
        table.TakeHead(cells);
        continue;
      }
      table.rows_.push_back(std::move(cells));
    }
    // "No servers": a list that says in words that it is empty.
    if (table.rows_.size() == 1 && table.rows_[0].size() == 1 &&
        base::LowerCase(table.rows_[0][0]).starts_with("no "))
      table.rows_.clear();
    for (const auto& row : table.rows_)
      for (const auto& column : wanted)
        if (!table.Cell(row, column)) return Refusal(answer);
    return table;
  }

  // nullopt: the table or this row has no such cell.
  std::optional<std::string_view> Cell(const Cells& row, std::string_view column) const {
    const auto it = std::find(columns_.begin(), columns_.end(), column);
    const auto at = static_cast<std::size_t>(it - columns_.begin());
    return it == columns_.end() || at >= row.size() ? std::nullopt : std::optional(row[at]);
  }
  const std::vector<Cells>& rows() const { return rows_; }

 private:
  void TakeHead(const Cells& head) {
    has_head_ = true;
    columns_.clear();
    for (const auto cell : head) columns_.push_back(ColumnName(cell));
  }

  std::vector<std::string> columns_;
  std::vector<Cells> rows_;
  bool has_head_ = false;
};

// Words for a value that is not set.
bool IsNone(std::string_view cell) {
  const auto word = base::LowerCase(cell);
  return word.empty() || word == "-" || word == "none" || word == "n/a" || word == "unlimited";
}

// The namespace of a client, by the names that the documentation has for this column.
std::optional<std::string> NamespaceIn(const CsvTable& table, const Cells& row) {
  for (const char* const column : {"namespace", "maws-ns"})
    if (const auto cell = table.Cell(row, column); cell && !IsNone(*cell)) return std::string(*cell);
  return std::nullopt;
}

}  // namespace

int ParseProtocol(std::string_view help) {
  const auto text = base::LowerCase(help);
  return text.find("server") != std::string::npos && text.find("namespace") != std::string::npos ? 3 : 2;
}

bool NamesTimeSlices(std::string_view help) { return help.find("--timeslice-pct") != std::string_view::npos; }

base::Result<std::vector<ServerRow>> ParseServers(std::string_view answer) {
  GPUMAN_ASSIGN(const auto table, CsvTable::Read(answer, {"name", "uid", "pid", "status"}, 4));
  std::vector<ServerRow> servers;
  for (const auto& row : table.rows()) {
    const auto pid_cell = *table.Cell(row, "pid");
    const auto pid = IsNone(pid_cell) ? std::optional<pid_t>(0) : base::ParseNumber<pid_t>(pid_cell);
    const std::string name(*table.Cell(row, "name"));
    if (!pid || *pid < 0 || name.empty()) return Refusal(answer);
    servers.push_back({name, base::ParseNumber<uid_t>(*table.Cell(row, "uid")), *pid,
                       base::LowerCase(*table.Cell(row, "status"))});
  }
  return servers;
}

base::Result<std::vector<NamespaceRow>> ParseNamespaces(std::string_view answer) {
  constexpr const char *kMemory = "pinned-memory-limit", *kThreads = "active-thread-percentage";
  GPUMAN_ASSIGN(const auto table,
                CsvTable::Read(answer, {"name", "server", "server-status", kMemory, kThreads}, 5));
  std::vector<NamespaceRow> namespaces;
  for (const auto& row : table.rows()) {
    NamespaceRow one{std::string(*table.Cell(row, "name")), std::string(*table.Cell(row, "server")), {}};
    if (one.name.empty() || one.server.empty()) return Refusal(answer);
    if (const auto cell = *table.Cell(row, kMemory); !IsNone(cell)) {
      GPUMAN_ASSIGN(one.limits.memory, ParseMemoryLimit(cell));
    }
    if (const auto cell = *table.Cell(row, kThreads); !IsNone(cell)) {
      GPUMAN_ASSIGN(one.limits.threads, ParsePercentage(cell));
      if (one.limits.threads == 0.0) one.limits.threads.reset();
    }
    namespaces.push_back(std::move(one));
  }
  return namespaces;
}

base::Result<std::vector<ClientRow>> ParseClients(std::string_view answer) {
  GPUMAN_ASSIGN(const auto table, CsvTable::Read(answer, {"pid", "server", "device", "namespace"}, 2));
  std::vector<ClientRow> clients;
  for (const auto& row : table.rows()) {
    const auto pid = base::ParseNumber<pid_t>(*table.Cell(row, "pid"));
    const std::string server(*table.Cell(row, "server"));
    if (!pid || *pid <= 0 || server.empty()) return Refusal(answer);
    clients.push_back({*pid, server, NamespaceIn(table, row)});
  }
  return clients;
}

std::string Shown(const base::ProgramResult& answer) {
  const auto text = base::Trimmed(answer.output);
  return text.empty() ? fmt::format("exit status {}", answer.status)
                      : OneLine(text.substr(0, text.find('\n')));
}

base::Result<std::vector<pid_t>> ParsePids(std::string_view answer) {
  std::vector<pid_t> pids;
  for (std::string_view rest = answer; !rest.empty();) {
    const auto line = base::Trimmed(base::TakeUntil(rest, '\n'));
    if (line.empty()) continue;
    const auto pid = base::ParseNumber<pid_t>(line);
    if (!pid || *pid <= 0) return Refusal(answer);
    pids.push_back(*pid);
  }
  return pids;
}

base::Result<double> ParsePercentage(std::string_view answer) {
  const auto number = ThreadsVariable(base::Trimmed(answer));
  if (!number) return Refusal(answer);
  return *number;
}

base::Result<std::optional<base::Bytes>> ParseMemoryLimit(std::string_view answer) {
  const auto text = base::Trimmed(answer);
  if (text.empty()) return std::optional<base::Bytes>();
  const auto size = SizeOf(text);
  if (!size) return Refusal(answer);
  return size->count == 0 ? std::optional<base::Bytes>() : size;
}

base::Result<> ParseDone(std::string_view answer) {
  const auto text = base::Trimmed(answer);
  if (text.empty() || ThreadsVariable(text) || SizeOf(text)) return {};
  return Refusal(answer);
}

std::optional<base::Bytes> MemoryVariable(std::string_view text) {
  while (!text.empty()) {
    const auto entry = base::Trimmed(base::TakeUntil(text, ','));
    if (!entry.starts_with("0=")) continue;
    const auto size = SizeOf(entry.substr(2));
    return size && size->count > 0 ? size : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> ThreadsVariable(std::string_view text) {
  const auto number = base::ParseNumber<double>(base::Trimmed(text));
  return number && std::isfinite(*number) && *number >= 0 && *number <= 100 ? number : std::nullopt;
}

}  // namespace gpuman::mps
