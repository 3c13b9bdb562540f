// Prometheus' text format (version 0.0.4), written family by family.
//
// The caller may add samples in any order. Text() writes the families in the order of the table (families.h),
// each with its HELP and TYPE. A family without samples is left out. Pure; thread-compatible.
#pragma once

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/histogram.h"
#include "metrics/families.h"

namespace gpuman::metrics {

inline constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

// Returns a label's value in the form that stands between quotes. Bytes that are not UTF-8 become '?',
// because one such byte makes Prometheus reject the whole answer.
std::string Escape(std::string_view value);

// `gpu="0",uuid="GPU-…"`. The caller makes the labels once and uses them for many samples.
class Labels {
 public:
  Labels() = default;
  Labels(std::string_view name, std::string_view value) { Add(name, value); }
  Labels& Add(std::string_view name, std::string_view value);
  // These labels with one more.
  Labels With(std::string_view name, std::string_view value) const { return Labels(*this).Add(name, value); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Exposition {
 public:
  // The caller must not add a family twice with the same labels.
  template <typename Number>
  void Add(MetricId metric, const Labels& labels, Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    if constexpr (std::is_same_v<Number, bool>)
      Append(metric, {}, labels.text(), value ? 1 : 0);
    else
      Append(metric, {}, labels.text(), value);
  }
  // An unknown value is left out, never 0.
  template <typename Number>
  void Add(MetricId metric, const Labels& labels, const std::optional<Number>& value) {
    if (value) Add(metric, labels, *value);
  }
  void Add(MetricId metric, const Labels& labels, const base::Histogram& histogram);

  std::string Text() const;

 private:
  template <typename Number>
  void Append(MetricId metric, std::string_view suffix, std::string_view labels, Number value) {
    auto& body = bodies_[static_cast<std::size_t>(metric)];
    const auto name = FamilyOf(metric).name;
    if (labels.empty())
      fmt::format_to(std::back_inserter(body), "{}{} {}\n", name, suffix, value);
    else
      fmt::format_to(std::back_inserter(body), "{}{}{{{}}} {}\n", name, suffix, labels, value);
  }

  std::array<std::string, kFamilyCount> bodies_;
};

}  // namespace gpuman::metrics
