#include "web/assets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "web/embedded_files.h"

namespace gpuman::web {
namespace {

TEST(Assets, AreFoundByTheirNamesAlone) {
  EXPECT_TRUE(FindAsset("/index.html"));
  EXPECT_TRUE(FindAsset("/dygraph.min.js"));
  for (const auto* path :
       {"", "index.html", "/..", "/../index.html", "/web/index.html", "//index.html", "/x"})
    EXPECT_FALSE(FindAsset(path)) << path;
}

TEST(Assets, HaveTypesThatBrowsersTake) {
  EXPECT_EQ(FindAsset("/")->content_type, "text/html; charset=utf-8");
  for (const EmbeddedFile& file : EmbeddedFiles())
    EXPECT_NE(FindAsset("/" + std::string(file.name))->content_type, "application/octet-stream") << file.name;
}

TEST(Assets, AreCompressedAndSmall) {
  std::size_t bytes = 0;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    EXPECT_TRUE(file.bytes.starts_with("\x1f\x8b")) << file.name;
    bytes += file.bytes.size();
  }
  EXPECT_LE(bytes, 200'000u);
}

}  // namespace
}  // namespace gpuman::web
