#include "metrics/exposition.h"

#include <algorithm>

#include "base/utf8.h"

namespace gpuman::metrics {
std::string Escape(std::string_view value) {
  std::string escaped;
  escaped.reserve(value.size());
  while (!value.empty()) {
    const auto length = base::Utf8CharacterAt(value, 0).length;
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

void Exposition::Add(MetricId metric, const Labels& labels, const base::Histogram& histogram) {
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
    const auto& family = FamilyOf(static_cast<MetricId>(i));
    if (bodies_[i].empty()) continue;
    fmt::format_to(std::back_inserter(text), "# HELP {} {}\n# TYPE {} {}\n", family.name, family.help,
                   family.name, ToString(family.type));
    text += bodies_[i];
  }
  return text;
}

}  // namespace gpuman::metrics
