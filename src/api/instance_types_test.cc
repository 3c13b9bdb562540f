#include "api/instance_types.h"

#include <gtest/gtest.h>

namespace gpuman::api {
namespace {

struct Device {
  std::string uuid;
  std::optional<std::string> number{};
  std::optional<int> index{};
};

TEST(NumbersOf, NamesDevicesInTheOrderOfTheirUuids) {
  const std::vector<Device> devices{
      {"GPU-aaaaaaaaaaaa", "0"}, {"MIG-bbbbbbbbbbbb", "1:2"}, {"GPU-cccccccccccc"}};
  EXPECT_EQ(NumbersOf({"MIG-bbbbbbbbbbbb", "GPU-aaaaaaaaaaaa"}, devices), "1:2,0");
  EXPECT_EQ(NumbersOf({"GPU-cccccccccccc"}, devices), "-") << "it has no number";
  EXPECT_EQ(NumbersOf({}, devices), "");
}

TEST(NumbersOf, GivesTheBeginningOfAUuidThatNoDeviceHas) {
  const std::vector<Device> devices{{"GPU-aaaaaaaaaaaa", "0"}};
  EXPECT_EQ(NumbersOf({"GPU-0123456789", "GPU-aaaaaaaaaaaa"}, devices), "GPU-01234567,0");
  EXPECT_EQ(NumbersOf({"GPU-0123456789"}, devices, 8), "GPU-0123");
}

}  // namespace
}  // namespace gpuman::api
