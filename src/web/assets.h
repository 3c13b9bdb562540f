// The files of the page, which are part of the program. Thread-safe.
#pragma once

#include <optional>
#include <string_view>
#include <tl/expected.hpp>

#include "web/request_check.h"

namespace gpuman::web {

struct Asset {
  std::string_view content_type;
  std::string_view bytes;  // compressed by gzip, as every browser takes it
};

// `path`: "/" for the page itself, "/app.js". nullopt: there is no such file.
std::optional<Asset> FindAsset(std::string_view path);
// The file that a request of HTTP asks for, or why it gets none.
tl::expected<Asset, Refusal> AssetFor(std::string_view method, std::string_view path);

}  // namespace gpuman::web
