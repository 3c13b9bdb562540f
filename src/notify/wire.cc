#include "notify/wire.h"

#include "base/json.h"

namespace gpuman::notify {
namespace {

constexpr base::json::JsonFormat kFormat{};

}  // namespace

template <typename V, base::json::Of<HttpPost> T>
void Fields(V& v, T& x) {
  v.Required("url", x.url);
  v.Required("delivery", x.delivery);
  v.Required("event", x.event);
  v.Required("body", x.body);
  v.Required("secret", x.secret);
  v.Required("allow", x.allow);
  v.Required("proxy", x.proxy);
}

template <typename V, base::json::Of<OutgoingMail> T>
void Fields(V& v, T& x) {
  v.Required("server", x.server);
  v.Required("port", x.port);
  v.Required("tls", x.tls);
  v.Required("user", x.user);
  v.Required("password", x.password);
  v.Required("from", x.from);
  v.Required("to", x.to);
  v.Required("text", x.text);
}

static std::string_view NameOf(const HttpPost&) { return "post"; }
static std::string_view NameOf(const OutgoingMail&) { return "mail"; }

template <typename V, base::json::Of<DeliveryRequest> T>
void Fields(V& v, T& x) {
  v.Required("number", x.number);
  v.Required("timeout_ms", x.timeout);
  v.Required("agent", x.agent);
  v.Required("ca_file", x.ca_file);
  v.Variant("what", x.what);
}

template <typename V, base::json::Of<DeliveryReport> T>
void Fields(V& v, T& x) {
  v.Required("number", x.number);
  v.Required("status", x.attempt.status);
  v.Required("problem", x.attempt.problem);
  v.Required("hopeless", x.attempt.hopeless);
  v.Option("retry_after_ms", x.attempt.retry_after);
}

std::string Serialize(const DeliveryRequest& order) { return base::json::ToText(order, kFormat) + "\n"; }
std::string Serialize(const DeliveryReport& report) { return base::json::ToText(report, kFormat) + "\n"; }

base::Result<DeliveryRequest> ParseOrder(std::string_view line) {
  return base::json::FromText<DeliveryRequest>(line, kFormat, "an order to gpuman-notifier");
}
base::Result<DeliveryReport> ParseReport(std::string_view line) {
  return base::json::FromText<DeliveryReport>(line, kFormat, "a report of gpuman-notifier");
}

bool TakeLine(std::string& buffer, std::string& line) {
  const auto end = buffer.find('\n');
  if (end == std::string::npos) return false;
  line = buffer.substr(0, end);
  buffer.erase(0, end + 1);
  return true;
}

}  // namespace gpuman::notify
