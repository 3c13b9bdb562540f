// Each parser of input from kubelet, from another client of the socket, or from an administrator accepts or
// refuses any bytes. The first byte chooses the parser for the rest.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/rpc.h"
#include "plugins/kubernetes/test_pools.h"

namespace {

using namespace gpuman::kubernetes;  // NOLINT(google-build-using-namespace)

// The messages are the same whether the bytes come at once or one by one.
void TryFrames(std::string_view bytes) {
  RpcMessageReader whole, single;
  const auto refused = whole.Feed(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) (void)single.Feed(bytes.substr(i, 1));
  if (single.Feed({}) != refused || single.Take() != whole.Take()) std::abort();
}

void TryId(std::string_view id) {
  static const ResourcePool pool =
      MakePools(ConfigOf({ResourceOf(ResourceKind::kMemory, "a.b/c")}), Machine(2, 12)).pools[0];
  const PoolGpu* unit = FindUnit(pool, id);
  if (!unit) return;
  for (unsigned i = 0; i < unit->devices; ++i)
    if (DeviceId(*unit, i) == id) return;
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      TryFrames(rest);
      break;
    case 1:
      if (const auto config = ParseConfig(rest, "fuzz.toml"); !config && config.error().message.empty())
        std::abort();
      break;
    case 2:
      TryId(rest);
      break;
    default:
      if (DecodeStatusMessage(EncodeStatusMessage(rest)) != rest) std::abort();
      (void)DecodeStatusMessage(rest);
  }
  return 0;
}
