#include "metrics/exposition.h"

#include <algorithm>

namespace gpuman::metrics {
namespace {

// The length in bytes of the well-formed UTF-8 sequence at the beginning of `text` (Unicode, table 3-7); 0:
// there is none.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string Escape(std::string_view value) {
  std::string escaped;
  escaped.reserve(value.size());
  while (!value.empty()) {
    const auto length = SequenceLength(value);
    const auto piece = value.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0)
      escaped += '?';
    else if (piece == "\n")
      escaped += "\\n";
    else if (piece == "\"" || piece == "\\")
      (escaped += '\\') += piece;
    else
      escaped += piece;
    value.remove_prefix(piece.size());
  }
  return escaped;
}

Labels& Labels::Add(std::string_view name, std::string_view value) {
  if (!text_.empty()) text_ += ',';
  ((text_ += name) += "=\"") += Escape(value);
  text_ += '"';
  return *this;
}

void Exposition::Add(Metric metric, const Labels& labels, const base::Histogram& histogram) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
    below += histogram.counts()[i];
    const bool last = i == histogram.bounds().size();
    const auto bound = last ? std::string("+Inf") : fmt::format("{}", histogram.bounds()[i]);
    Append(metric, "_bucket", labels.With("le", bound).text(), below);
  }
  Append(metric, "_sum", labels.text(), histogram.sum());
  Append(metric, "_count", labels.text(), histogram.count());
}

std::string Exposition::Text() const {
  std::string text;
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const auto& family = FamilyOf(static_cast<Metric>(i));
    if (bodies_[i].empty()) continue;
    fmt::format_to(std::back_inserter(text), "# HELP {} {}\n# TYPE {} {}\n", family.name, family.help,
                   family.name, ToString(family.type));
    text += bodies_[i];
  }
  return text;
}

}  // namespace gpuman::metrics
