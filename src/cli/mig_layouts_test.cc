#include "cli/mig_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MigLayouts, OfOursHaveGpusAndInstances) {
  const auto layouts = ParseMigLayouts(R"(
[[layouts.balanced]]
gpus = [0, "GPU-93f6"]
instances = ["3g.71gb", "2x1g.18gb"]

[[layouts.balanced]]
device_filter = "0x233510DE"
enabled = false

[layouts.small]
instances = ["7x1g.18gb"]
)",
                                       "layouts.toml");
  ASSERT_TRUE(layouts) << layouts.error().message;
  ASSERT_EQ(layouts->size(), 2u);
  const auto& balanced = layouts->at("balanced");
  ASSERT_EQ(balanced.size(), 2u);
  EXPECT_THAT(balanced[0].gpus, ElementsAre("0", "GPU-93f6"));
  EXPECT_THAT(balanced[0].instances, ElementsAre("3g.71gb", "2x1g.18gb"));
  EXPECT_TRUE(balanced[0].enabled);
  EXPECT_THAT(balanced[1].filters, ElementsAre("0x233510DE"));
  EXPECT_FALSE(balanced[1].enabled);
  EXPECT_THAT(layouts->at("small")[0].gpus, IsEmpty());
}

TEST(MigLayouts, OfMigPartedAreReadAsTheyAre) {
  const auto layouts = ParseMigLayouts(R"(version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false

  # comments are no part of it
  custom-config:
    - devices: [0,1]
      mig-enabled: true
      mig-devices: {}
    - device-filter: ["0x233010DE", "0x233110DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb": 2
        "3g.40gb": 1
    - device-filter: "0x20B710DE"
      devices: [4]
      mig-enabled: true
      mig-devices: {"1g.6gb+me": 1}
)",
                                       "config.yaml");
  ASSERT_TRUE(layouts) << layouts.error().message;
  EXPECT_FALSE(layouts->at("all-disabled")[0].enabled);
  const auto& custom = layouts->at("custom-config");
  ASSERT_EQ(custom.size(), 3u);
  EXPECT_THAT(custom[0].gpus, ElementsAre("0", "1"));
  EXPECT_THAT(custom[0].instances, IsEmpty());
  EXPECT_THAT(custom[1].gpus, IsEmpty());
  EXPECT_THAT(custom[1].filters, ElementsAre("0x233010DE", "0x233110DE"));
  EXPECT_THAT(custom[1].instances, ElementsAre("2x1g.10gb", "3g.40gb"));
  EXPECT_THAT(custom[2].filters, ElementsAre("0x20B710DE"));
  EXPECT_THAT(custom[2].instances, ElementsAre("1g.6gb+me"));
}

struct Wrong {
  const char* text;
  const char* message;
};

class WrongLayouts : public testing::TestWithParam<Wrong> {};

TEST_P(WrongLayouts, AreRefusedWithLineAndKey) {
  const auto layouts = ParseMigLayouts(GetParam().text, "file");
  ASSERT_FALSE(layouts);
  EXPECT_EQ(layouts.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(layouts.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Files, WrongLayouts,
    testing::Values(
        Wrong{"", "file: it has no [[layouts.NAME]]"}, Wrong{"[layout.a]\n", "file:1: unknown key 'layout'"},
        Wrong{"[[layouts.a]]\ninstance = []\n", "file:2: unknown key 'instance'; did you mean instances?"},
        Wrong{"[[layouts.a]]\ninstances = [1]\n", "file:2: instances takes"},
        Wrong{"[[layouts.a]]\nenabled = 1\n", "file:2: enabled takes true or false"},
        Wrong{"[[layouts.a]]\ngpus = [-1]\n", "file:2: gpus takes"}, Wrong{"[[layouts.a]\n", "file:1: "},
        Wrong{"\n[[[[laylaouty", "file:2: a table's header has no name"}, Wrong{"[a\n[[[\n", "file:1: "},
        Wrong{"# Co[[layouts.a]]\ngpus = [\320\250\n", "file:2: outside of strings and comments only ASCII"},
        Wrong{"layouts = 1\n", "it has no [[layouts.NAME]]"},
        Wrong{"version: v2\nmig-configs: {}\n", "file:1: version takes v1"},
        Wrong{"mig-configs: {}\n", "version is missing"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - devices: all\n      mig-enable: true\n",
              "file:5: unknown key 'mig-enable'; did you mean mig-enabled?"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - devices: all\n", "file:4: mig-enabled is missing"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - mig-enabled: true\n", "file:4: devices is missing"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - devices: some\n", "file:4: devices takes all"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - devices: [x]\n", "file:4: devices: 'x' is no number"},
        Wrong{"version: v1\nmig-configs:\n  a: 1\n", "file:3: a takes a list of entries"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - devices: all\n      mig-enabled: true\n      "
              "mig-devices: [1]\n",
              "file:6: mig-devices takes"},
        Wrong{"version: v1\nmig-configs:\n  a:\n    - devices: all\n      mig-enabled: true\n"
              "      mig-devices: {1g.5gb: 65}\n",
              "file:6: mig-devices: '65' is no number from 0 to 64"},
        Wrong{"version: v1\nmig-configs: [\n", "file:"}));

TEST(MigLayouts, AreReadAsTheyWereWritten) {
  std::vector<api::MigConfigSpec> devices(3);
  devices[0].gpus = {"0", "2"};
  devices[0].instances = {"3g.71gb", "2x1g.18gb+me"};
  devices[1].gpus = {"1"};
  devices[1].enabled = false;
  devices[2].filters = {"0x233510DE"};
  for (auto* const write : {&WriteMigToml, &WriteMigParted}) {
    const std::string text = write("of today", devices);
    const auto read = ParseMigLayouts(text, "file");
    ASSERT_TRUE(read) << read.error().message << text;
    const auto& again = read->at("of today");
    ASSERT_EQ(again.size(), devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) {
      EXPECT_EQ(again[i].gpus, devices[i].gpus);
      EXPECT_EQ(again[i].filters, devices[i].filters);
      EXPECT_EQ(again[i].enabled, devices[i].enabled);
      EXPECT_EQ(again[i].instances, devices[i].instances);
    }
  }
}

}  // namespace
}  // namespace gpuman::cli
