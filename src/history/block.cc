#include "history/block.h"

#include <functional>
#include <utility>

namespace gpuman::history {
namespace {

tl::unexpected<base::Error> Damaged(const char* what) {
  return base::Fail(base::ErrorCode::kCorrupt, std::string("a block of history has ") + what);
}

// --- numbers: 7 bits a byte, the lowest first; the high bit says that more follow

void PutNumber(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::optional<std::uint64_t> TakeNumber(std::string_view& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (in.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// 0, -1, 1, -2, … as 0, 1, 2, 3, …
std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1)));
}
std::int64_t Minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t Plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// --- columns: of differences; (n << 1) | 1 stands for n + 1 zeros, any other difference is zigzag << 1

using Column = std::vector<std::int64_t>;

class ColumnWriter {
 public:
  explicit ColumnWriter(std::string& out) : out_(out) {}
  ~ColumnWriter() { EndZeros(); }
  ColumnWriter(const ColumnWriter&) = delete;
  ColumnWriter& operator=(const ColumnWriter&) = delete;

  void Put(std::int64_t difference) {
    if (difference == 0) {
      ++zeros_;
      return;
    }
    EndZeros();
    PutNumber(out_, ZigZag(difference) << 1);
  }

 private:
  void EndZeros() {
    if (zeros_ > 0) PutNumber(out_, ((zeros_ - 1) << 1) | 1);
    zeros_ = 0;
  }

  std::string& out_;
  std::uint64_t zeros_ = 0;
};

void PutColumn(std::string& out, std::span<const Row> rows,
               const std::function<std::int64_t(const Row&)>& value) {
  ColumnWriter column(out);
  std::int64_t before = 0;
  for (const Row& row : rows) {
    const std::int64_t now = value(row);
    column.Put(Minus(now, before));
    before = now;
  }
}

bool TakeColumn(std::string_view& in, Column& column) {
  std::size_t row = 0;
  std::int64_t now = 0;
  while (row < column.size()) {
    const auto number = TakeNumber(in);
    if (!number) return false;
    if ((*number & 1) == 0) {
      now = Plus(now, UnZigZag(*number >> 1));
      column[row++] = now;
      continue;
    }
    const std::uint64_t zeros = (*number >> 1) + 1;
    if (zeros > column.size() - row) return false;
    for (std::uint64_t i = 0; i < zeros; ++i) column[row++] = now;
  }
  return true;
}

void PutTimes(std::string& out, std::span<const Row> rows) {
  ColumnWriter column(out);
  std::int64_t before = rows.front().at, step = 0;
  for (const Row& row : rows.subspan(1)) {
    const std::int64_t next = row.at - before;
    column.Put(next - step);
    before = row.at;
    step = next;
  }
}

bool TakeTimes(std::string_view& in, const BlockHead& head, std::vector<Row>& rows) {
  Column steps(rows.size() - 1);
  if (!TakeColumn(in, steps)) return false;
  rows.front().at = head.first;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (steps[i - 1] <= 0 || steps[i - 1] > kLastTime) return false;
    rows[i].at = rows[i - 1].at + steps[i - 1];
    if (rows[i].at > kLastTime) return false;
  }
  return rows.back().at == head.last;
}

// Rounded down, so that the differences from it to min and max are at least 0.
std::int64_t MeanOf(const Aggregate& figures) {
  if (figures.count == 0) return 0;
  const auto count = static_cast<std::int64_t>(figures.count);
  return figures.sum / count - (figures.sum % count < 0 ? 1 : 0);
}

bool Take(std::string_view& in, Column& column, std::vector<Row>& rows, std::uint32_t Row::*member) {
  if (!TakeColumn(in, column)) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (column[i] < 0 || column[i] > kMaxSeconds) return false;
    rows[i].*member = static_cast<std::uint32_t>(column[i]);
  }
  return true;
}

bool TakeFigures(std::string_view& in, Column& column, std::vector<Row>& rows, std::size_t metric) {
  if (!TakeColumn(in, column)) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (column[i] < 0 || column[i] > kMaxSeconds) return false;
    rows[i].figures[metric].count = static_cast<std::uint32_t>(column[i]);
  }
  if (!TakeColumn(in, column)) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].figures[metric].sum = column[i];
  if (!TakeColumn(in, column)) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& figures = rows[i].figures[metric];
    figures.min = Minus(MeanOf(figures), column[i]);
  }
  if (!TakeColumn(in, column)) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& figures = rows[i].figures[metric];
    figures.max = Plus(MeanOf(figures), column[i]);
  }
  return true;
}

}  // namespace

std::string EncodeBlock(std::string_view name, std::span<const Row> rows) {
  std::string out;
  out.reserve(64 + name.size() + rows.size() * 8);
  PutNumber(out, name.size());
  out += name;
  PutNumber(out, static_cast<std::uint64_t>(rows.front().at));
  PutNumber(out, static_cast<std::uint64_t>(rows.back().at - rows.front().at));
  PutNumber(out, rows.size());
  PutTimes(out, rows);
  for (const auto member : {&Row::seconds, &Row::waiting, &Row::suspended})
    PutColumn(out, rows, [member](const Row& row) { return static_cast<std::int64_t>(row.*member); });
  for (std::size_t i = 0; i < kMetrics; ++i) {
    PutColumn(out, rows, [i](const Row& row) { return static_cast<std::int64_t>(row.figures[i].count); });
    PutColumn(out, rows, [i](const Row& row) { return row.figures[i].sum; });
    PutColumn(out, rows, [i](const Row& row) { return MeanOf(row.figures[i]) - row.figures[i].min; });
    PutColumn(out, rows, [i](const Row& row) { return row.figures[i].max - MeanOf(row.figures[i]); });
  }
  return out;
}

base::Result<BlockHead> ReadHead(std::string_view block) {
  BlockHead head;
  const auto length = TakeNumber(block);
  if (!length || *length > kLongestName || *length > block.size()) return Damaged("no name");
  head.name = block.substr(0, *length);
  block.remove_prefix(*length);
  const auto first = TakeNumber(block);
  const auto span = first ? TakeNumber(block) : std::nullopt;
  const auto rows = span ? TakeNumber(block) : std::nullopt;
  constexpr auto kLast = static_cast<std::uint64_t>(kLastTime);
  if (!rows || *first > kLast || *span > kLast - *first) return Damaged("no times");
  if (*rows == 0 || *rows > kMaxRows) return Damaged("a number of rows that none has");
  head.first = static_cast<std::int64_t>(*first);
  head.last = static_cast<std::int64_t>(*first + *span);
  head.rows = *rows;
  head.columns = block;
  return head;
}

base::Result<std::vector<Row>> ReadRows(const BlockHead& head) {
  std::vector<Row> rows(head.rows);
  Column column(head.rows);
  std::string_view in = head.columns;
  if (!TakeTimes(in, head, rows)) return Damaged("times that do not rise, or end early");
  for (const auto member : {&Row::seconds, &Row::waiting, &Row::suspended})
    if (!Take(in, column, rows, member)) return Damaged("counts that are none, or end early");
  for (std::size_t i = 0; i < kMetrics; ++i)
    if (!TakeFigures(in, column, rows, i)) return Damaged("figures that are none, or end early");
  if (!in.empty()) return Damaged("more bytes than rows");
  for (const Row& row : rows)
    if (!IsSound(row)) return Damaged("figures that contradict each other");
  return rows;
}

}  // namespace gpuman::history
