#include <gtest/gtest.h>

#include <string_view>

#include "held_process.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--held") return gpuman::suspend::RunHeldProcess(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
