#include "daemon/compat/nvshare.h"

#include <gtest/gtest.h>

namespace gpuman::daemon::nvshare {
namespace {

TEST(NvshareVariable, CountsForJobsThatShareWithTheLibrary) {
  api::RunRequest request;
  request.share = true;
  EXPECT_FALSE(AsksForOversubscription(request));
  auto& value = request.environment["NVSHARE_ENABLE_SINGLE_OVERSUB"];
  for (const char* off : {"", "0"}) {
    value = off;
    EXPECT_FALSE(AsksForOversubscription(request)) << off;
  }
  value = "1";
  EXPECT_TRUE(AsksForOversubscription(request));
  request.preload = false;
  EXPECT_FALSE(AsksForOversubscription(request));
  request.preload = true;
  request.share = false;
  EXPECT_FALSE(AsksForOversubscription(request));
}

}  // namespace
}  // namespace gpuman::daemon::nvshare
