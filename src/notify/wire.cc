#include "notify/wire.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_number.h"

namespace gpuman::notify {
namespace {

using Json = nlohmann::json;

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json ToJson(const HttpPost& post) {
  return {{"url", post.url},       {"delivery", post.delivery}, {"event", post.event}, {"body", post.body},
          {"secret", post.secret}, {"allow", post.allow},       {"proxy", post.proxy}};
}

Json ToJson(const SendMail& mail) {
  return {{"server", mail.server}, {"port", mail.port},         {"tls", static_cast<int>(mail.tls)},
          {"user", mail.user},     {"password", mail.password}, {"from", mail.from},
          {"to", mail.to},         {"text", mail.text}};
}

std::string TextAt(const Json& json, const char* name) { return json.at(name).get<std::string>(); }

HttpPost PostFrom(const Json& json) {
  return {TextAt(json, "url"),  TextAt(json, "delivery"), TextAt(json, "event"),
          TextAt(json, "body"), TextAt(json, "secret"),   json.at("allow").get<std::vector<std::string>>(),
          TextAt(json, "proxy")};
}

SendMail MailFrom(const Json& json) {
  const int tls = base::Checked<int>(json.at("tls"));
  return {TextAt(json, "server"),
          base::Checked<std::uint32_t>(json.at("port")),
          tls == 0   ? Tls::kStart
          : tls == 1 ? Tls::kWhole
                     : Tls::kNone,
          TextAt(json, "user"),
          TextAt(json, "password"),
          TextAt(json, "from"),
          TextAt(json, "to"),
          TextAt(json, "text")};
}

template <typename T, typename Body>
base::Result<T> Parsed(std::string_view line, Body&& body) {
  try {
    return body(Json::parse(line));
  } catch (const Json::exception& error) {
    return base::Fail(base::ErrorCode::kCorrupt,
                      fmt::format("not a line of gpuman-notifier: {}", error.what()));
  }
}

}  // namespace

std::string Serialize(const Order& order) {
  Json json{{"number", order.number},
            {"timeout_ms", order.timeout.count()},
            {"agent", order.agent},
            {"ca_file", order.ca_file}};
  const bool post = std::holds_alternative<HttpPost>(order.what);
  json[post ? "post" : "mail"] = std::visit([](const auto& what) { return ToJson(what); }, order.what);
  return Line(json);
}

std::string Serialize(const Report& report) {
  Json json{{"number", report.number},
            {"status", report.attempt.status},
            {"problem", report.attempt.problem},
            {"hopeless", report.attempt.hopeless}};
  if (report.attempt.retry_after) json["retry_after_ms"] = report.attempt.retry_after->count();
  return Line(json);
}

base::Result<Order> ParseOrder(std::string_view line) {
  return Parsed<Order>(line, [](const Json& json) {
    Order order;
    order.number = base::Checked<std::int64_t>(json.at("number"));
    order.timeout = base::Millis(base::Checked<std::int64_t>(json.at("timeout_ms")));
    order.agent = TextAt(json, "agent");
    order.ca_file = TextAt(json, "ca_file");
    if (json.contains("mail"))
      order.what = MailFrom(json.at("mail"));
    else
      order.what = PostFrom(json.at("post"));
    return order;
  });
}

base::Result<Report> ParseReport(std::string_view line) {
  return Parsed<Report>(line, [](const Json& json) {
    Report report;
    report.number = base::Checked<std::int64_t>(json.at("number"));
    report.attempt.status = base::Checked<int>(json.at("status"));
    report.attempt.problem = TextAt(json, "problem");
    report.attempt.hopeless = json.at("hopeless").get<bool>();
    if (json.contains("retry_after_ms"))
      report.attempt.retry_after = base::Millis(base::Checked<std::int64_t>(json.at("retry_after_ms")));
    return report;
  });
}

bool TakeLine(std::string& buffer, std::string& line) {
  const auto end = buffer.find('\n');
  if (end == std::string::npos) return false;
  line = buffer.substr(0, end);
  buffer.erase(0, end + 1);
  return true;
}

}  // namespace gpuman::notify
