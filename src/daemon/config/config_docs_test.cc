// Checks that the documents of the configuration and the keys that the daemon reads agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"
#include "daemon/config/config.h"

namespace gpuman::daemon {
namespace {

std::string TextOf(const char* path) {
  auto text = base::ReadFile(std::filesystem::path(GPUMAN_SOURCE_DIR) / path);
  EXPECT_TRUE(text) << path;
  return text.value_or("");
}

std::set<std::string> Known() {
  const auto keys = ConfigKeys();
  return {keys.begin(), keys.end()};
}

TEST(ConfigurationPage, HasEveryKeyOnceAndNoOther) {
  const std::string page = TextOf("docs/configuration.md");
  std::multiset<std::string> described;
  const std::regex row(R"(\n- `([a-z_.]+)` \()");
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it)
    described.insert((*it)[1].str());
  EXPECT_THAT(described, ::testing::UnorderedElementsAreArray(Known()));
}

// The file after an administrator has removed the comment sign from every line that shows a key.
TEST(PackagedConfiguration, IsAcceptedWithEveryKeyWrittenOut) {
  const std::string packaged = TextOf("packaging/gpumand.toml");
  EXPECT_TRUE(ParseConfig(packaged, "gpumand.toml", {}));
  const std::string written_out = std::regex_replace(packaged, std::regex("\n#([^ \n])"), "\n$1");
  EXPECT_NE(written_out, packaged);
  const auto config = ParseConfig(written_out, "gpumand.toml", {});
  EXPECT_TRUE(config) << (config ? "" : Describe(config.error().front()));
}

TEST(PackagedConfiguration, ShowsEveryKeyWithItsDefault) {
  const std::string packaged = TextOf("packaging/gpumand.toml");
  for (const std::string& key : Known()) {
    const std::string last = key.substr(key.rfind('.') + 1);
    EXPECT_TRUE(packaged.find("\n#" + last + " =") != std::string::npos ||
                packaged.find("[" + key + "]") != std::string::npos)
        << key;
  }
}

}  // namespace
}  // namespace gpuman::daemon
