#include "api/container_json.h"

#include "api/ask.h"
#include "api/json_codec.h"
#include "base/json.h"

namespace gpuman::api {

constexpr bool IsRequest(const ContainerTable*) { return true; }

template <typename V, base::json::Of<GivenContainer> T>
void Fields(V& v, T& x) {
  v.Required("namespace", x.name_space);
  v.Required("pod", x.pod);
  v.Required("container", x.container);
  v("resource", x.resource);
  v.Required("gpus", x.gpus);
  v.Option("memory", x.memory);
  v("share", x.share);
  v.Option("priority", x.priority);
}

template <typename V, base::json::Of<ContainerTable> T>
void Fields(V& v, T& x) {
  v.Required("containers", x.containers);
}

template <typename V, base::json::Of<ContainerFiles> T>
void Fields(V& v, T& x) {
  v.Required("library", x.shim_library);
  v.Required("preload", x.preload);
  v.Required("socket_directory", x.socket_directory);
}

template <typename V, base::json::Of<ContainersView> T>
void Fields(V& v, T& x) {
  v.Required("containers", x.containers);
  v("files", x.files);
}

Json ToJson(const ContainerTable& value) { return base::json::Write(kFormat, value); }
Json ToJson(const ContainersView& value) { return base::json::Write(kFormat, value); }
GPUMAN_CODEC(ContainerTable);
GPUMAN_CODEC(ContainersView);

base::Result<ContainersView> AskContainers(const std::filesystem::path& socket) {
  return Ask(socket, routes::kContainers);
}

base::Result<ContainersView> TellContainers(const std::filesystem::path& socket, const ContainerTable& table,
                                            base::Millis patience) {
  HttpOptions options;
  options.patience = patience;
  return Ask(socket, routes::kSetContainers, {}, table, options);
}

}  // namespace gpuman::api
