// The list of docs/doctor.md and the table of checks must agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "base/file.h"
#include "doctor/checks.h"

namespace gpuman::doctor {
namespace {

TEST(DoctorPage, HasEveryCheckInItsOrderAndNoOther) {
  const auto page = base::ReadFile(std::filesystem::path(GPUMAN_SOURCE_DIR) / "docs/doctor.md");
  ASSERT_TRUE(page);
  std::vector<std::string> described, known;
  const std::regex row(R"(\n- `([a-z0-9_]+)` \()");
  for (std::sregex_iterator it(page->begin(), page->end(), row), end; it != end; ++it)
    described.push_back((*it)[1].str());
  for (const auto& check : Checks()) known.emplace_back(check.id);
  EXPECT_EQ(described, known);
}

}  // namespace
}  // namespace gpuman::doctor
