#include "daemon/http/exchange.h"

#include <algorithm>

#include "api/json.h"
#include "base/text.h"

namespace gpuman::daemon::http {
std::optional<std::string_view> Request::Query(std::string_view name) const {
  const auto it = query.find(std::string(name));
  return it == query.end() ? std::nullopt : std::optional<std::string_view>(it->second);
}

Response ErrorResponse(const base::Error& error) {
  return {static_cast<unsigned>(api::HttpStatusOf(error.code)), api::Encode(error) + "\n",
          "application/json"};
}

std::optional<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = base::HexDigit(text[i + 1]);
      const int low = base::HexDigit(text[i + 2]);
      if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

std::map<std::string, std::string> ParseQuery(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  text = spaced;
  std::map<std::string, std::string> query;
  while (!text.empty()) {
    const auto pair = base::TakeUntil(text, '&');
    const auto equals = pair.find('=');
    const auto name = DecodePercent(pair.substr(0, equals));
    const auto value =
        DecodePercent(equals == std::string_view::npos ? std::string_view("1") : pair.substr(equals + 1));
    if (name && value && !name->empty()) query[*name] = *value;
  }
  return query;
}

}  // namespace gpuman::daemon::http
