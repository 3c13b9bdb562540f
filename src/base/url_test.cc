#include "base/url.h"

#include <gtest/gtest.h>

namespace gpuman::base {
namespace {

TEST(HttpUrl, IsTakenApart) {
  const auto plain = ParseHttpUrl("http://hooks.example.org");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "hooks.example.org");
  EXPECT_EQ(plain->port, 80);
  EXPECT_FALSE(plain->tls);
  const auto full = ParseHttpUrl("https://ada:pw@[2001:db8::1]:8443/x?y=1#z");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->host, "2001:db8::1");
  EXPECT_EQ(full->port, 8443);
  EXPECT_TRUE(full->tls);
  EXPECT_EQ(ParseHttpUrl("https://a/b@c:1")->host, "a");
}

TEST(HttpUrl, SaysWhatIsWrongWithIt) {
  const std::pair<const char*, const char*> table[] = {
      {"ftp://a/", "does not begin with"},
      {"", "does not begin with"},
      {"http://", "names no host"},
      {"http:///x", "names no host"},
      {"http://a b/", "must be written as"},
      {"http://a/\r\nX: y", "must be written as"},
      {"http://a\\@b/", "must be written"},
      {"http://a@b@c/", "more than one @"},
      {"http://[::1/", "without its ]"},
      {"http://[a.b]/", "no address between"},
      {"http://a:0/", "a port"},
      {"http://a:65536/", "a port"},
      {"http://a:/", "a port"},
      {"http://a:8x/", "a port"},
      {"http://[::1]x/", "a port"},
      {"http://-a/", "names no host"},
  };
  for (const auto& [text, what] : table) {
    const auto url = ParseHttpUrl(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(url.error().message.find(what), std::string::npos) << url.error().message;
  }
  EXPECT_FALSE(ParseHttpUrl("http://a/" + std::string(kLongestUrl, 'x')));
}

TEST(MailAddress, IsOneInAscii) {
  for (const char* const text : {"a@b", "ada.l+gpu@example.org", "o'neill@mail-1.example.org"})
    EXPECT_TRUE(IsMailAddress(text)) << text;
  for (const char* const text : {"", "ada", "@b", "a@", "a b@c", "a@b\r\nBcc: x", "a,c@b", "<a@b>", "-a@b",
                                 "a@b@c", "\"a\"@b", "a@[1.2.3.4]", "ad\xc3\xa9@b", "a@b/c"})
    EXPECT_FALSE(IsMailAddress(text)) << text;
  EXPECT_FALSE(IsMailAddress(std::string(250, 'a') + "@b.cd"));
}

TEST(HttpUrl, IsShownWithoutItsPathAndPassword) {
  EXPECT_EQ(UrlWithoutSecrets("https://u:p@hooks.example.org/T0/secret?k=v"), "https://hooks.example.org/…");
  EXPECT_EQ(UrlWithoutSecrets("http://[::1]:81/x"), "http://[::1]:81/…");
  EXPECT_EQ(UrlWithoutSecrets("mailto:x"), "…");
}

}  // namespace
}  // namespace gpuman::base
