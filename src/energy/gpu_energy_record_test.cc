#include "energy/gpu_energy_record.h"

#include <gtest/gtest.h>

namespace gpuman::energy {
namespace {

TEST(EnergyRecord, IsReadAsItWasWritten) {
  GpuEnergyRecord record;
  record.boot = "6c3f";
  record.counter = 123'456'789'012;
  record.at_ns = 42;
  record.holders = {{{0}, 1, false}, {{7}, 0.25, true}};
  record.rest_watts = 74.5;
  record.counted = 100;
  record.idle = 40;
  record.others = 10;
  record.ended = 20;
  record.jobs = {{"7", 30}};
  const auto read = ParseRecord(SerializeRecord(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(EnergyRecord, ThatIsDamagedIsRefused) {
  for (const char* text : {"", "{}", "[]", R"({"v":2})"}) EXPECT_FALSE(ParseRecord(text)) << text;
  GpuEnergyRecord record;
  record.holders = {{{7}, 0, false}};
  EXPECT_FALSE(ParseRecord(SerializeRecord(record))) << "a holder without weight would be divided by";
}

}  // namespace
}  // namespace gpuman::energy
