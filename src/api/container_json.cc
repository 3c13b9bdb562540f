#include "api/container_types.h"
#include "api/json_codec.h"
#include "base/json.h"

namespace gpuman::api {

constexpr bool IsRequest(const ContainerTable*) { return true; }

template <typename V, base::json::Of<ContainerAllocation> T>
void Fields(V& v, T& x) {
  v.Required("namespace", x.name_space);
  v.Required("pod", x.pod);
  v.Required("container", x.container);
  v("resource", x.resource);
  v.Required("gpus", x.gpus);
  v.Option("memory", x.memory);
  v("share", x.share);
  v.Option("compute", x.compute);
  v.Option("priority", x.priority);
}

template <typename V, base::json::Of<ContainerTable> T>
void Fields(V& v, T& x) {
  v.Required("containers", x.containers);
}

template <typename V, base::json::Of<ContainerMounts> T>
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

GPUMAN_CODEC(ContainerTable);
GPUMAN_CODEC(ContainersView);

}  // namespace gpuman::api
