#include <gtest/gtest.h>

#include <string_view>

#include "forged_mover.h"
#include "held_process.h"

int main(int argc, char** argv) {
  const std::string_view role = argc > 1 ? argv[1] : "";
  if (role == "--held") return gpuman::suspend::RunHeldProcess(argc, argv);
  if (role == "--forge") return gpuman::suspend::RunForgedMover(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
