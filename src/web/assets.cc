#include "web/assets.h"

#include "web/embedded_files.h"

namespace gpuman::web {
namespace {

std::string_view TypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

}  // namespace

std::optional<Asset> FindAsset(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  path.remove_prefix(1);
  if (path.empty()) path = "index.html";
  for (const EmbeddedFile& file : EmbeddedFiles())
    if (file.name == path) return Asset{TypeOf(file.name), file.bytes};
  return std::nullopt;
}

tl::expected<Asset, Refusal> AssetFor(std::string_view method, std::string_view path) {
  if (method != "GET") return tl::unexpected(Refusal{405, "files of the page are only read", {}});
  const auto file = FindAsset(path);
  if (!file) return tl::unexpected(Refusal{404, "this server has no such file", "open its first page: /"});
  return *file;
}

}  // namespace gpuman::web
