// Headers of HTTP that come with the page and with what it is told. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpuman::web {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Of every answer: what the browser may do with it.
const Headers& CommonHeaders();

}  // namespace gpuman::web
