#include "gpu/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::gpu {
namespace {

using base::ErrorCode;
using testing::HasSubstr;

const std::vector<Gpu> kGpus = {
    {0, "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", "NVIDIA H200", "00000000:00:06.0", base::GiB(140)},
    {1, "GPU-93f6aaaa-0000-0000-0000-000000000001", "NVIDIA H200", "00000000:00:07.0", base::GiB(140)},
    {2, "GPU-12345678-0000-0000-0000-000000000002", "NVIDIA A100", "00000000:00:08.0", base::GiB(40)},
};

TEST(Select, TakesIndexUuidAndBeginningOfOne) {
  const struct {
    const char* what;
    unsigned index;
  } table[] = {
      {"0", 0},
      {"2", 2},
      {"GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", 0},
      {"gpu-93F6E897-3b2d-3c8a-a1c7-4a689d9a62b6", 0},
      {"93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", 0},
      {"GPU-93f6a", 1},
      {"93f6a", 1},
      {"12345678", 2},  // too many digits for an index
  };
  for (const auto& row : table) {
    const auto gpu = Select(kGpus, row.what);
    ASSERT_TRUE(gpu) << row.what << ": " << gpu.error().message;
    EXPECT_EQ(gpu->index, row.index) << row.what;
  }
}

TEST(Select, SaysWhatIsWrongAndWhichGpusExist) {
  const struct {
    const char* what;
    ErrorCode code;
    const char* message;
  } table[] = {
      {"3", ErrorCode::kNotFound, "no GPU 3"},
      {"99999999999999999999999", ErrorCode::kNotFound, "no GPU"},
      {"-1", ErrorCode::kNotFound, "no GPU '-1'"},
      {"", ErrorCode::kInvalidArgument, "empty"},
      {"93f", ErrorCode::kNotFound, "no GPU '93f'"},  // too short
      {"93f6", ErrorCode::kInvalidArgument, "fits 2 GPUs"},
      {"GPU-", ErrorCode::kNotFound, "no GPU 'GPU-'"},
      {"1:0", ErrorCode::kNotFound, "no GPU '1:0'; none of those that can be named is an instance (MIG)"},
      {"MIG-8c57ea4c", ErrorCode::kNotFound, "none of those that can be named is an instance (MIG)"},
      {"GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6x", ErrorCode::kNotFound, "no GPU"},
  };
  for (const auto& row : table) {
    const auto gpu = Select(kGpus, row.what);
    ASSERT_FALSE(gpu) << row.what;
    EXPECT_EQ(gpu.error().code, row.code) << row.what;
    EXPECT_THAT(gpu.error().message, HasSubstr(row.message));
    EXPECT_THAT(gpu.error().hint, HasSubstr("0 (GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6), 1 (GPU-93f6aaaa"));
  }
  EXPECT_THAT(Select({}, "0").error().hint, HasSubstr("no GPU that gpuman can see"));
}

// kGpus with GPU 0 split in two; its instances follow it.
std::vector<Gpu> Split() {
  std::vector<Gpu> gpus = kGpus;
  gpus[0].split = true;
  for (unsigned number = 0; number < 2; ++number) {
    Gpu instance{
        0,
        number == 0 ? "MIG-5c1ee000-0000-5000-8000-000000000001" : "MIG-93f6bbbb-0000-5000-8000-000000000002",
        "NVIDIA H200 MIG 1g.18gb", gpus[0].pci_bus_id, base::GiB(16)};
    instance.mig = Instance{gpus[0].uuid, number, number + 7, 0, "1g.18gb"};
    gpus.insert(gpus.begin() + 1 + number, instance);
  }
  return gpus;
}

TEST(Select, TakesInstancesByTheirUuidAndByTheirNumber) {
  const auto gpus = Split();
  const struct {
    const char* what;
    std::size_t place;
  } table[] = {
      {"0:0", 1},       {"0:1", 2},    {"MIG-5c1ee000-0000-5000-8000-000000000001", 1},
      {"mig-5C1e", 1},  {"5c1ee", 1},  {"0", 0},
      {"1", 3},         {"GPU-12", 5}, {"MIG-93f6", 2},
      {"GPU-93f6e", 0},
  };
  for (const auto& row : table) {
    const auto gpu = Select(gpus, row.what);
    if (std::string_view(row.what) == "GPU-12") {
      EXPECT_FALSE(gpu);  // too short
      continue;
    }
    ASSERT_TRUE(gpu) << row.what << ": " << gpu.error().message;
    EXPECT_EQ(gpu->uuid, gpus[row.place].uuid) << row.what;
  }
  EXPECT_EQ(Select(gpus, "0:2").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Select(gpus, "1:0").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Select(gpus, "0:2").error().hint, HasSubstr("0:1 (MIG-93f6bbbb"));
  EXPECT_THAT(Select(gpus, "93f6").error().message, HasSubstr("fits 3 GPUs"));
}

TEST(Instances, HaveTheNumberOfTheirGpuAndTheirOwn) {
  const auto gpus = Split();
  EXPECT_EQ(NumberOf(gpus[0]), "0");
  EXPECT_EQ(NumberOf(gpus[2]), "0:1");
}

TEST(Instances, NameOfInstanceHasNumbersOfGpuAndInstance) {
  const Inventory inventory{Split(), {}, {}, {}, {}};
  EXPECT_EQ(NameOf(inventory, inventory.gpus[0].uuid), "GPU 0");
  EXPECT_EQ(NameOf(inventory, inventory.gpus[2].uuid), "GPU 0:1");
  EXPECT_EQ(NameOf(inventory, "MIG-gone"), "GPU MIG-gone");
}

TEST(Instances, WithoutInstancesLeavesWholeGpusAndTheirLinks) {
  Inventory inventory{Split(), {}, "580", ""};
  for (std::size_t i = 0; i < 25; ++i)
    inventory.links.push_back(i % 5 > 2 && i / 5 > 2 ? Link::kNvLink : Link::kUnknown);
  const auto whole = WithoutInstances(inventory);
  ASSERT_EQ(whole.gpus.size(), 3u);
  EXPECT_EQ(whole.gpus[1], kGpus[1]);
  using enum Link;
  EXPECT_EQ(whole.links, (std::vector<Link>{kUnknown, kUnknown, kUnknown, kUnknown, kNvLink, kNvLink,
                                            kUnknown, kNvLink, kNvLink}));
  EXPECT_EQ(whole.driver_version, "580");
}

TEST(VisibleByDefault, AreGpusThatAreNotSplitAndElseTheFirstInstance) {
  auto gpus = Split();
  EXPECT_EQ(VisibleByDefault(gpus), (std::vector<Gpu>{gpus[3], gpus[4]}));
  gpus.resize(3);
  EXPECT_EQ(VisibleByDefault(gpus), std::vector<Gpu>{gpus[1]});
  gpus.resize(1);
  EXPECT_TRUE(VisibleByDefault(gpus).empty());
}

TEST(CanBeHad, SingleInstanceOrWholeGpusAreAllowedTogether) {
  const auto gpus = Split();
  const auto had = [&](const std::vector<std::size_t>& places) {
    std::vector<Gpu> wanted;
    wanted.reserve(places.size());
    for (const auto place : places) wanted.push_back(gpus[place]);
    return CanBeHad(gpus, wanted);
  };
  EXPECT_TRUE(had({}));
  EXPECT_TRUE(had({1}));
  EXPECT_TRUE(had({3, 4}));
  const auto split = had({3, 0});
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, ErrorCode::kConflict);
  EXPECT_THAT(split.error().message, HasSubstr("0:0 (1g.18gb, MIG-5c1ee000"));
  EXPECT_THAT(split.error().hint, HasSubstr("gpuman mig clear --gpu 0 --disable"));
  EXPECT_THAT(had({1, 2}).error().message, HasSubstr("one instance and nothing beside it"));
  EXPECT_THAT(had({3, 1}).error().message, HasSubstr("0:0 is an instance"));
}

TEST(SelectAll, KeepsTheOrderAndDropsRepetitions) {
  const std::vector<std::string> what = {"2", "0", "12345678", "GPU-93f6e"};
  const auto gpus = SelectAll(kGpus, what);
  ASSERT_TRUE(gpus);
  EXPECT_EQ(*gpus, (std::vector<Gpu>{kGpus[2], kGpus[0]}));
  EXPECT_EQ(SelectAll(kGpus, std::vector<std::string>{"0", "7"}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::gpu
