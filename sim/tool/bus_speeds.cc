#include "sim/tool/bus_speeds.h"

#include <string>

#include "base/parse_number.h"
#include "base/text.h"
#include "base/units.h"

namespace gpuman::sim {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

Result<unsigned> ParseIndex(std::string_view text, unsigned gpus) {
  const auto index = base::ParseNumber<unsigned>(text);
  if (!index)
    return Fail(ErrorCode::kInvalidArgument,
                "'" + std::string(text) + "' is no index of a GPU; speeds look like 55G or 0=55G,1=25G");
  if (*index >= gpus)
    return Fail(ErrorCode::kInvalidArgument,
                "there is no GPU " + std::to_string(*index) + ": the machine has " + std::to_string(gpus));
  return *index;
}

}  // namespace

Result<BusSpeeds> ParseBusSpeeds(std::string_view text, unsigned gpus) {
  BusSpeeds speeds{};
  if (text.empty()) return speeds;
  if (text.find('=') == std::string_view::npos) {
    GPUMAN_ASSIGN(const auto all, base::ParseBytes(text));
    speeds.fill(all.count);
    return speeds;
  }
  while (!text.empty()) {
    std::string_view speed = base::TakeUntil(text, ',');
    GPUMAN_ASSIGN(const unsigned index, ParseIndex(base::TakeUntil(speed, '='), gpus));
    GPUMAN_ASSIGN(const auto bytes, base::ParseBytes(speed));
    if (speeds[index] != 0)
      return Fail(ErrorCode::kInvalidArgument, "GPU " + std::to_string(index) + " is named twice");
    speeds[index] = bytes.count;
  }
  return speeds;
}

}  // namespace gpuman::sim
