#include "base/url.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"

namespace gpuman::base {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsPlain(char c) {
  return c > ' ' && c < 0x7f && std::string_view("\"<>\\^`{|}").find(c) == std::string_view::npos;
}

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= 253 && host.front() != '-' && host.front() != '.' &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '.' || c == '_'; });
}

bool IsAddress6(std::string_view host) {
  return !host.empty() && host.find(':') != std::string_view::npos &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' ||
                  c == '.';
         });
}

tl::unexpected<Error> Wrong(std::string_view text, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' {}", text.substr(0, 200), what));
}

}  // namespace

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  HttpUrl url;
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://")) return Wrong(text, "does not begin with http:// or https://");
  if (text.size() > kLongestUrl) return Wrong(text, fmt::format("is longer than {} bytes", kLongestUrl));
  if (!std::all_of(text.begin(), text.end(), IsPlain))
    return Wrong(text, "has a character that must be written as %XX");
  std::string_view authority = text.substr(url.tls ? 8 : 7);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    if (authority.find('@') != at) return Wrong(text, "has more than one @ before its host");
    authority.remove_prefix(at + 1);
  }
  std::string_view port;
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == std::string_view::npos) return Wrong(text, "has a [ without its ]");
    url.host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    if (!IsAddress6(url.host)) return Wrong(text, "has no address between its brackets");
  } else {
    const auto colon = authority.find(':');
    url.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) port = authority.substr(colon);
    if (!IsHostName(url.host)) return Wrong(text, "names no host");
  }
  url.port = url.tls ? kHttpsPort : kHttpPort;
  if (port.empty()) return url;
  url.port = ParseNumber<decltype(url.port)>(port.substr(1)).value_or(0);
  if (port.front() != ':' || url.port == 0) return Wrong(text, "has a port that is not between 1 and 65535");
  return url;
}

bool IsMailAddress(std::string_view text) {
  constexpr std::size_t kLongest = 254;  // RFC 5321: a path has 256 characters, including its brackets
  const auto at = text.rfind('@');
  if (at == std::string_view::npos || at == 0 || text.size() > kLongest || text.front() == '-') return false;
  const std::string_view local = text.substr(0, at);
  return IsHostName(text.substr(at + 1)) && std::all_of(local.begin(), local.end(), [](char c) {
           return IsAlphanumeric(c) ||
                  std::string_view("!#$%&'*+-/=?^_`{|}~.").find(c) != std::string_view::npos;
         });
}

std::string UrlWithoutSecrets(std::string_view text) {
  const auto url = ParseHttpUrl(text);
  if (!url) return "…";
  const bool six = url->host.find(':') != std::string::npos;
  std::string shown =
      fmt::format("{}://{}", url->tls ? "https" : "http", six ? "[" + url->host + "]" : url->host);
  if (url->port != (url->tls ? kHttpsPort : kHttpPort)) shown += fmt::format(":{}", url->port);
  return shown + "/…";
}

}  // namespace gpuman::base
