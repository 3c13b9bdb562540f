#include "notify/wire.h"

#include <gtest/gtest.h>

namespace gpuman::notify {
namespace {

TEST(Wire, CarriesOrders) {
  DeliveryRequest order;
  order.number = 7;
  order.timeout = base::Millis(1500);
  order.agent = "gpuman/1";
  order.ca_file = "/ca";
  order.what = HttpPost{"http://x/", "d", "failed", "{\n}", "s", {"10.0.0.0/8"}, "http://p:1"};
  const std::string line = Serialize(order);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto read = ParseOrder(line);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->number, 7);
  EXPECT_EQ(read->timeout, base::Millis(1500));
  EXPECT_EQ(read->agent, "gpuman/1");
  EXPECT_EQ(read->ca_file, "/ca");
  const auto& post = std::get<HttpPost>(read->what);
  EXPECT_EQ(post.url, "http://x/");
  EXPECT_EQ(post.body, "{\n}");
  EXPECT_EQ(post.secret, "s");
  EXPECT_EQ(post.allow, std::vector<std::string>{"10.0.0.0/8"});
  EXPECT_EQ(post.proxy, "http://p:1");
  for (const Tls tls : {Tls::kStart, Tls::kWhole, Tls::kNone}) {
    order.what = OutgoingMail{"mail", 25, tls, "u", "p", "a@b", "c@d", "x\r\n"};
    const auto again = ParseOrder(Serialize(order));
    ASSERT_TRUE(again);
    const auto& mail = std::get<OutgoingMail>(again->what);
    EXPECT_EQ(mail.tls, tls);
    EXPECT_EQ(mail.text, "x\r\n");
    EXPECT_EQ(mail.password, "p");
  }
}

TEST(Wire, CarriesReports) {
  const auto report = ParseReport(Serialize({3, {429, "why", true, base::Millis(5000)}}));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->number, 3);
  EXPECT_EQ(report->attempt.status, 429);
  EXPECT_EQ(report->attempt.problem, "why");
  EXPECT_TRUE(report->attempt.hopeless);
  EXPECT_EQ(report->attempt.retry_after, base::Millis(5000));
  EXPECT_FALSE(ParseReport(Serialize({3, {200, "", false, {}}}))->attempt.retry_after);
}

TEST(Wire, RefusesOtherLines) {
  for (const char* const text : {"", "{}", "[]", "{\"number\":1}", "nonsense"}) {
    EXPECT_FALSE(ParseOrder(text)) << text;
    EXPECT_FALSE(ParseReport(text)) << text;
  }
}

TEST(Wire, RefusesNumbersThatDoNotFit) {
  const auto report = [](const std::string& number, const std::string& status, const std::string& retry) {
    return ParseReport(R"({"hopeless":false,"number":)" + number + R"(,"problem":"","retry_after_ms":)" +
                       retry + R"(,"status":)" + status + "}");
  };
  EXPECT_TRUE(report("1", "200", "5"));
  for (const char* const wrong : {"1e300", "-1e300", "1.5", "9223372036854775808", "null"}) {
    EXPECT_FALSE(report(wrong, "200", "5")) << wrong;
    EXPECT_FALSE(report("1", wrong, "5")) << wrong;
    if (wrong != std::string_view("null")) {
      EXPECT_FALSE(report("1", "200", wrong)) << wrong;
    }
  }
  EXPECT_FALSE(report("1", "4294967496", "5"));  // its low bits alone are 200

  DeliveryRequest order;
  order.what = OutgoingMail{"mail", 25, Tls::kNone, "u", "p", "a@b", "c@d", "x"};
  std::string line = Serialize(order);
  const auto port = line.find("25");
  ASSERT_NE(port, std::string::npos);
  EXPECT_FALSE(ParseOrder(line.replace(port, 2, "1e300")));
}

TEST(Wire, TakesLinesOffWhatWasRead) {
  std::string buffer = "a\nb\nc", line;
  EXPECT_TRUE(TakeLine(buffer, line));
  EXPECT_EQ(line, "a");
  EXPECT_TRUE(TakeLine(buffer, line));
  EXPECT_EQ(line, "b");
  EXPECT_FALSE(TakeLine(buffer, line));
  EXPECT_EQ(buffer, "c");
}

}  // namespace
}  // namespace gpuman::notify
