// Compares the table of families with the documents: the page, the dashboard, the alerts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/file.h"
#include "metrics/families.h"

namespace gpuman::metrics {
namespace {

std::string TextOf(const char* path) {
  auto text = base::ReadFile(std::filesystem::path(GPUMAN_SOURCE_DIR) / path);
  EXPECT_TRUE(text) << path;
  return text.value_or("");
}

// The names that an expression may use: a histogram has three, and `up` is Prometheus' own.
std::set<std::string> Usable() {
  std::set<std::string> names{"up"};
  for (const auto& family : kFamilies) {
    const std::string name(family.name);
    if (family.type != Type::kHistogram) {
      names.insert(name);
      continue;
    }
    for (const char* suffix : {"_bucket", "_sum", "_count"}) names.insert(name + suffix);
  }
  return names;
}

// The words of an expression that are not functions, labels or operators and do not stand within quotes.
std::set<std::string> MetricsOf(std::string expression) {
  for (const char* const aside : {R"("[^"]*")", R"(\{[^}]*\})", R"(\[[^\]]*\])",
                                  R"(\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\))"})
    expression = std::regex_replace(expression, std::regex(aside), " ");
  std::set<std::string> metrics;
  const std::regex word(R"(\b[A-Za-z_:][A-Za-z0-9_:]*(?![A-Za-z0-9_:])(?!\s*\())");
  for (std::sregex_iterator it(expression.begin(), expression.end(), word), end; it != end; ++it)
    if (!std::set<std::string>{"and", "or", "unless", "bool"}.contains(it->str())) metrics.insert(it->str());
  return metrics;
}

void ExpectUsable(const std::string& expression) {
  const auto usable = Usable();
  const auto metrics = MetricsOf(expression);
  EXPECT_FALSE(metrics.empty()) << expression;
  for (const auto& metric : metrics) EXPECT_TRUE(usable.contains(metric)) << metric << " in " << expression;
}

TEST(MetricFamilies, FollowTheConventions) {
  std::set<std::string_view> names;
  for (const auto& family : kFamilies) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(family.help.ends_with('.') && family.help.find('\n') == family.help.npos) << family.name;
    EXPECT_EQ(family.name.ends_with("_total"), family.type == Type::kCounter) << family.name;
    EXPECT_TRUE(std::regex_match(std::string(family.name),
                                 std::regex("DCGM_FI_DEV_[A-Z_]+|(gpuman|process)_[a-z_]+")))
        << family.name;
  }
}

TEST(MetricsPage, HasEveryFamilyOnceWithItsTypeAndNoOther) {
  std::multimap<std::string, std::string> described;
  const std::string page = TextOf("docs/metrics.md");
  const std::regex row(R"(\n- `([A-Za-z_]+)` \(([a-z]+)[;)])");
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it)
    described.emplace((*it)[1].str(), (*it)[2].str());
  std::multimap<std::string, std::string> known;
  for (const auto& family : kFamilies) known.emplace(family.name, ToString(family.type));
  EXPECT_EQ(described, known);
}

TEST(DashboardExpressions, AreTakenApart) {
  EXPECT_THAT(
      MetricsOf(R"(sum by (le, gpu) (rate(a_bucket{x=~"y(",z="{}"}[5m])) / on (gpu) b > 3e0 and c_total)"),
      ::testing::UnorderedElementsAre("a_bucket", "b", "c_total"));
}

TEST(Dashboard, AsksForNothingThatThereIsNot) {
  const auto dashboard = nlohmann::json::parse(TextOf("packaging/grafana/gpuman.json"));
  std::set<int> ids;
  std::size_t expressions = 0;
  for (const auto& panel : dashboard.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second);
    EXPECT_FALSE(panel.at("title").get<std::string>().empty());
    if (panel.at("type") == "row") continue;
    ASSERT_FALSE(panel.at("targets").empty()) << panel.at("title");
    for (const auto& target : panel.at("targets")) {
      ExpectUsable(target.at("expr").get<std::string>());
      ++expressions;
    }
  }
  EXPECT_GT(expressions, 40u);
}

TEST(AlertRules, AskForNothingThatThereIsNot) {
  const std::string rules = TextOf("packaging/prometheus/gpuman.rules.yml");
  const std::regex expression(R"(\n +expr: ([^\n]+))");
  std::size_t count = 0;
  for (std::sregex_iterator it(rules.begin(), rules.end(), expression), end; it != end; ++it, ++count)
    ExpectUsable((*it)[1].str());
  EXPECT_GT(count, 10u);
}

}  // namespace
}  // namespace gpuman::metrics
