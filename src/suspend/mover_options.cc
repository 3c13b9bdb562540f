#include "suspend/mover_options.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::suspend {
namespace {

using base::ErrorCode;
using base::Fail;

bool ReadList(std::string_view text, std::vector<gid_t>& out) {
  while (!text.empty()) {
    const auto group = base::ParseNumber<gid_t>(base::TakeUntil(text, ','));
    if (!group) return false;
    out.push_back(*group);
  }
  return true;
}

}  // namespace

base::Result<MoverOptions> ParseMoverOptions(int argc, char** argv) {
  MoverOptions options;
  MoverUser user;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--lock") {
      options.lock = true;
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : std::string_view();
    const bool good = word == "--uid"      ? (uid = base::ParseNumber<uid_t>(value)).has_value()
                      : word == "--gid"    ? (gid = base::ParseNumber<gid_t>(value)).has_value()
                      : word == "--groups" ? ReadList(value, user.groups)
                                           : false;
    if (!good) return Fail(ErrorCode::kInvalidArgument, fmt::format("wrong: {} {}", word, value));
  }
  if (uid.has_value() != gid.has_value())
    return Fail(ErrorCode::kInvalidArgument, "--uid and --gid go together");
  if (uid) options.user = MoverUser{*uid, *gid, std::move(user.groups)};
  return options;
}

}  // namespace gpuman::suspend
