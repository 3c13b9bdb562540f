#include "web/request_check.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace gpuman::web {
namespace {

constexpr std::string_view kBearer = "Bearer ";

// "localhost" of "localhost:8080", "[::1]" of "[::1]:8080".
std::string_view NameOf(std::string_view host) {
  const std::size_t colon = host.find(':', host.starts_with('[') ? std::min(host.find(']'), host.size()) : 0);
  return host.substr(0, colon);
}

bool IsLoopback(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames{"localhost", "127.0.0.1", "[::1]"};
  return std::find(kNames.begin(), kNames.end(), base::LowerCase(name)) != kNames.end();
}

}  // namespace

bool IsStranger(std::optional<uid_t> user, const AccessPolicy& owner) {
  return owner.user && user && *user != *owner.user && *user != 0;
}

std::optional<Refusal> RefusalOf(const RequestSource& sender, const AccessPolicy& owner) {
  if (IsStranger(sender.user, owner))
    return Refusal{403, "this page belongs to another user of this machine",
                   "start one of your own: gpuman web"};
  if (!IsLoopback(NameOf(sender.host)))
    return Refusal{
        421, "this server answers only to the names localhost, 127.0.0.1 and [::1]",
        "open the link as gpuman web printed it; from another machine forward the port with ssh -L"};
  return std::nullopt;
}

std::optional<Refusal> RefusalOfCall(const RequestSource& sender, const AccessPolicy& owner) {
  if (auto refusal = RefusalOf(sender, owner)) return refusal;
  const bool foreign_origin = !sender.origin.empty() && sender.origin != "http://" + std::string(sender.host);
  const bool foreign_site =
      !sender.fetch_site.empty() && sender.fetch_site != "same-origin" && sender.fetch_site != "none";
  if (foreign_origin || foreign_site)
    return Refusal{403, "the request comes from a page of another origin", {}};
  if (!sender.authorization.starts_with(kBearer) ||
      !SameSecret(sender.authorization.substr(kBearer.size()), owner.secret))
    return Refusal{401, "the secret of the link is missing or is not the one of this server",
                   "run the command again that printed the link: gpuman web, or gpuman web --everybody"};
  return std::nullopt;
}

bool SameSecret(std::string_view one, std::string_view other) {
  if (one.empty() || one.size() != other.size()) return false;
  unsigned char differences = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    differences |=
        static_cast<unsigned char>(static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]));
  return differences == 0;
}

}  // namespace gpuman::web
