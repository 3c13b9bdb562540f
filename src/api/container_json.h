// The codec of container_types.h, and the call to gpumand.
#pragma once

#include <filesystem>

#include "api/client.h"
#include "api/container_types.h"
#include "api/json.h"

namespace gpuman::api {

Json ToJson(const ContainerTable& value);
Json ToJson(const ContainersView& value);

base::Result<ContainersView> AskContainers(const std::filesystem::path& socket);
base::Result<ContainersView> TellContainers(const std::filesystem::path& socket, const ContainerTable& table,
                                            base::Millis patience);

}  // namespace gpuman::api
