#include "cli/doctor_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/printed_json.h"

namespace gpuman::doctor {

static void Fields(base::json::JsonObjectWriter& v, const Finding& x) {
  v("check", x.check);
  v("severity", std::string(ToString(x.severity)));
  v("subject", cli::NonEmpty(x.subject));
  v("text", x.text);
  v("remedy", cli::NonEmpty(x.remedy));
}

static void Fields(base::json::JsonObjectWriter& v, const ColdStart& x) {
  const bool measured = x.problem.empty();
  v("gpu", x.gpu);
  v("cold_s", measured ? cli::SecondsOf(x.cold) : std::nullopt);
  v("warm_s", measured ? cli::SecondsOf(x.warm) : std::nullopt);
  v("problem", cli::NonEmpty(x.problem));
}

}  // namespace gpuman::doctor

namespace gpuman::cli {
namespace {

using doctor::Severity;

Color ColorOf(Severity severity) {
  switch (severity) {
    case Severity::kFine:
      return Color::kGreen;
    case Severity::kUnknown:
      return Color::kDim;
    case Severity::kNote:
      return Color::kCyan;
    case Severity::kWarning:
      return Color::kYellow;
    case Severity::kError:
      return Color::kRed;
  }
  return Color::kNone;
}

std::string Line(const doctor::Finding& finding, const TerminalStyle& style) {
  const std::string word = fmt::format("{:<8}", doctor::ToString(finding.severity));
  const std::string subject = finding.subject.empty() ? "" : finding.subject + ": ";
  std::string text = fmt::format("{} {}: {}{}\n", Paint(style, ColorOf(finding.severity), word),
                                 finding.check, subject, Printable(finding.text));
  if (!finding.remedy.empty()) text += fmt::format("         -> {}\n", Printable(finding.remedy));
  return text;
}

std::string TextOf(const doctor::ColdStart& measured) {
  if (!measured.problem.empty())
    return fmt::format("First CUDA call on GPU {}: not measured: {}\n", measured.gpu,
                       Printable(measured.problem));
  return fmt::format("First CUDA call on GPU {}: {} alone, {} while another program uses the GPU.\n",
                     measured.gpu, base::FormatDuration(measured.cold), base::FormatDuration(measured.warm));
}

}  // namespace

std::string RenderFindings(const doctor::Findings& findings,
                           const std::optional<doctor::ColdStart>& cold_start, const TerminalStyle& style) {
  constexpr std::array kOrder{Severity::kError, Severity::kWarning, Severity::kNote, Severity::kUnknown,
                              Severity::kFine};
  std::string text;
  for (const auto severity : kOrder)
    for (const auto& finding : findings)
      if (finding.severity == severity) text += Line(finding, style);
  if (cold_start) text += TextOf(*cold_start);
  const auto count = [&](Severity severity) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const doctor::Finding& finding) { return finding.severity == severity; });
  };
  return text + fmt::format("Errors: {}, warnings: {}, notes: {}.\n", count(Severity::kError),
                            count(Severity::kWarning), count(Severity::kNote));
}

api::Json FindingsToJson(const doctor::Findings& findings,
                         const std::optional<doctor::ColdStart>& cold_start) {
  base::json::JsonObjectWriter json(kPrintedFormat);
  json("ok", !doctor::IsWrong(findings));
  json("findings", findings);
  json("cold_start", cold_start);
  return std::move(json).Take();
}

}  // namespace gpuman::cli
