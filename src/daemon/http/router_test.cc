#include "daemon/http/router.h"

#include <gtest/gtest.h>

namespace gpuman::daemon::http {
namespace {

// Keeps the answer.
class Recorded final : public Exchange {
 public:
  Recorded(std::string method, std::string path) {
    request_.method = std::move(method);
    request_.path = std::move(path);
  }
  const Request& request() const override { return request_; }
  void Send(Response response) override { answer = std::move(response); }
  void BeginStream(std::string_view, std::string_view) override {}
  void Write(std::string) override {}
  void EndStream() override {}
  std::size_t Unsent() const override { return 0; }
  void WhenSent(std::function<void()>) override {}
  void OnGone(std::function<void()>) override {}
  Response answer{0, "", ""};

 private:
  Request request_;
};

Response Ask(const Router& router, std::string method, std::string path) {
  const auto exchange = std::make_shared<Recorded>(std::move(method), std::move(path));
  router.Route(exchange);
  return exchange->answer;
}

Router MakeRouter() {
  Router router;
  const auto echo = [](const std::string& name) {
    return [name](const ExchangePtr& exchange, const PathParameters& parameters) {
      exchange->Send(
          {200, name + ":" + (parameters.contains("ref") ? parameters.at("ref") : ""), "text/plain"});
    };
  };
  router.Add("GET", "/v1/jobs", echo("list"));
  router.Add("POST", "/v1/jobs", echo("submit"));
  router.Add("GET", "/v1/jobs/{ref}", echo("show"));
  router.Add("GET", "/v1/jobs/{ref}/log", echo("log"));
  return router;
}

TEST(Router, ChoosesByMethodAndPathAndDecodesParameters) {
  const auto router = MakeRouter();
  EXPECT_EQ(Ask(router, "GET", "/v1/jobs").body, "list:");
  EXPECT_EQ(Ask(router, "POST", "/v1/jobs").body, "submit:");
  EXPECT_EQ(Ask(router, "GET", "/v1/jobs/my%20tag%2F7").body, "show:my tag/7");
  EXPECT_EQ(Ask(router, "GET", "/v1/jobs/7/log").body, "log:7");
}

TEST(Router, SaysWhichMethodsAPathTakes) {
  const auto answer = Ask(MakeRouter(), "DELETE", "/v1/jobs");
  EXPECT_EQ(answer.status, 405u);
  EXPECT_NE(answer.body.find("GET, POST"), std::string::npos);
}

TEST(Router, RefusesUnknownPathsAndBrokenEscapes) {
  const auto router = MakeRouter();
  for (const char* path :
       {"/", "/v1", "/v1/jobs/", "/v1/jobs/a/b", "/v1/jobs/%", "/v1/jobs/%zz", "/v1/jobs/%00"})
    EXPECT_EQ(Ask(router, "GET", path).status, 404u) << path;
}

TEST(ParseQuery, DecodesPairsAndTakesABareNameAsOne) {
  const auto query = ParseQuery("since=12&follow&tag=a+b%26c&=x&bad=%zz");
  EXPECT_EQ(query, (std::map<std::string, std::string>{{"since", "12"}, {"follow", "1"}, {"tag", "a b&c"}}));
}

TEST(ErrorResponse, CarriesCodeMessageAndHint) {
  const auto answer = ErrorResponse({base::ErrorCode::kNotFound, "no job 'x\xff'", ""});
  EXPECT_EQ(answer.status, 404u);
  EXPECT_EQ(answer.body,
            "{\"error\":{\"code\":\"not_found\",\"message\":\"no job 'x\xEF\xBF\xBD'\",\"hint\":null}}\n");
}

}  // namespace
}  // namespace gpuman::daemon::http
