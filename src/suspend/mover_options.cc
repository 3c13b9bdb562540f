#include "suspend/mover_options.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

namespace gpuman::suspend {
namespace {

using base::ErrorCode;
using base::Fail;

template <typename Number>
bool Read(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool ReadList(std::string_view text, std::vector<gid_t>& out) {
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (!Read(text.substr(0, comma), out.emplace_back())) return false;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
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
    const bool good = word == "--uid"      ? Read(value, uid.emplace())
                      : word == "--gid"    ? Read(value, gid.emplace())
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
