#include "web/request_check.h"

#include <gtest/gtest.h>

namespace gpuman::web {
namespace {

const AccessPolicy kOwner{1000, "5ec2e7"};

RequestSource Good() { return {1000, "127.0.0.1:8080", {}, "same-origin", "Bearer 5ec2e7"}; }

int StatusOf(const RequestSource& sender) {
  const auto refusal = RefusalOfCall(sender, kOwner);
  return refusal ? refusal->status : 200;
}

RequestSource With(std::string_view RequestSource::*field, std::string_view value) {
  RequestSource sender = Good();
  sender.*field = value;
  return sender;
}

TEST(RequestCheck, TakesTheOwnersPage) {
  EXPECT_EQ(StatusOf(Good()), 200);
  for (const auto* host : {"localhost:8080", "LocalHost", "[::1]:8080", "[::1]", "127.0.0.1"})
    EXPECT_EQ(StatusOf(With(&RequestSource::host, host)), 200) << host;
  EXPECT_EQ(StatusOf(With(&RequestSource::origin, "http://127.0.0.1:8080")), 200);
  EXPECT_EQ(StatusOf(With(&RequestSource::fetch_site, "")), 200);
}

TEST(RequestCheck, TakesRootAndWhomTheKernelDoesNotTell) {
  RequestSource sender = Good();
  sender.user = 0;
  EXPECT_EQ(StatusOf(sender), 200);
  sender.user.reset();
  EXPECT_EQ(StatusOf(sender), 200);
}

TEST(RequestCheck, RefusesAnotherUserEvenWithTheSecret) {
  RequestSource sender = Good();
  sender.user = 1001;
  EXPECT_EQ(StatusOf(sender), 403);
  EXPECT_TRUE(RefusalOf(sender, kOwner)) << "nor does that user get the page";
}

TEST(RequestCheck, APageForEverybodyTakesWhoHasTheSecret) {
  const AccessPolicy everybody{std::nullopt, "5ec2e7"};
  RequestSource sender = Good();
  for (const std::optional<uid_t> user : {std::optional<uid_t>{1001}, std::optional<uid_t>{}}) {
    sender.user = user;
    EXPECT_FALSE(IsStranger(user, everybody));
    EXPECT_FALSE(RefusalOfCall(sender, everybody));
  }
  sender.authorization = "Bearer 5ec2e6";
  EXPECT_EQ(RefusalOfCall(sender, everybody)->status, 401);
}

TEST(RequestCheck, RefusesNamesOfOtherHosts) {
  for (const auto* host :
       {"", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
        "127.0.0.1@evil.example", "[::1", "[::1]evil", "0.0.0.0:8080", "localhost evil"}) {
    EXPECT_EQ(StatusOf(With(&RequestSource::host, host)), 421) << host;
    EXPECT_TRUE(RefusalOf(With(&RequestSource::host, host), kOwner)) << host;
  }
}

TEST(RequestCheck, RefusesPagesOfOtherOrigins) {
  for (const auto* origin :
       {"null", "https://evil.example", "http://127.0.0.1:8081", "https://127.0.0.1:8080",
        "http://127.0.0.1:8080.evil.example", "http://localhost:8080"})
    EXPECT_EQ(StatusOf(With(&RequestSource::origin, origin)), 403) << origin;
  for (const auto* site : {"cross-site", "same-site", "other"})
    EXPECT_EQ(StatusOf(With(&RequestSource::fetch_site, site)), 403) << site;
}

TEST(RequestCheck, RefusesWrongSecrets) {
  for (const auto* secret : {"", "Bearer ", "Bearer", "5ec2e7", "Bearer 5ec2e6", "Bearer 5ec2e77",
                             "Bearer 5ec2e", "Basic 5ec2e7", "Bearer  5ec2e7"})
    EXPECT_EQ(StatusOf(With(&RequestSource::authorization, secret)), 401) << secret;
  EXPECT_FALSE(RefusalOf(With(&RequestSource::authorization, ""), kOwner)) << "the page's files need none";
}

TEST(RequestCheck, EmptySecretIsRefused) {
  EXPECT_FALSE(SameSecret("", ""));
  EXPECT_TRUE(RefusalOfCall(With(&RequestSource::authorization, "Bearer "), {1000, ""}));
}

}  // namespace
}  // namespace gpuman::web
