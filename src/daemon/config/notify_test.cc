#include "daemon/config/notify.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

std::string ProblemWith(const std::string& text) {
  const auto config = ParseConfig(text, "f", {});
  return config ? "" : Describe(config.error().front());
}

TEST(NotifyConfig, IsRead) {
  const auto config = ParseConfig(R"(
    [notify]
    webhooks = ["https://ops.example.org/h"]
    events = ["hard_limit", "gpu_lost"]
    allow = ["10.1.0.0/16"]
    retry_delay = "1s"
    in_flight = 2
    per_user = 5
    [notify.smtp]
    server = "mail.example.org"
    tls = "tls"
    from = "gpuman@example.org")",
                                  "f", {});
  ASSERT_TRUE(config) << Describe(config.error().front());
  const auto& s = config->notify;
  EXPECT_EQ(s.webhooks, std::vector<std::string>{"https://ops.example.org/h"});
  EXPECT_EQ(s.outbox.retry.first, base::Millis(1000));
  EXPECT_EQ(s.outbox.in_flight, 2U);
  EXPECT_EQ(s.outbox.per_user, 5U);
  EXPECT_EQ(s.smtp.tls, notify::Tls::kWhole);
}

TEST(NotifyConfig, NamesTheKeyThatIsWrong) {
  const std::pair<const char*, const char*> table[] = {
      {"[notify]\nwebhooks = [\"ftp://x\"]", "notify.webhooks: 'ftp://x' does not begin"},
      {"[notify]\nevents = [\"Hard Limit\"]", "notify.events: 'Hard Limit' is no kind"},
      {"[notify]\nallow = [\"localhost\"]", "notify.allow: 'localhost' is neither"},
      {"[notify]\nproxy = \"proxy:3128\"", "notify.proxy: 'proxy:3128' does not begin"},
      {"[notify]\nsecret_file = \"secret\"", "notify.secret_file: 'secret' is not an absolute path"},
      {"[notify]\nretry_delay = \"2h\"", "notify.retry_longest: is shorter"},
      {"[notify]\nin_flight = 0", "notify.in_flight"},
      {"[notify]\nsecret = \"x\"", "notify.secret"},
      {"[notify.smtp]\nserver = \"a b\"\nfrom = \"a@b\"", "notify.smtp.server: 'a b' is no name"},
      {"[notify.smtp]\nserver = \"mail:25\"\nfrom = \"a@b\"", "notify.smtp.server"},
      {"[notify.smtp]\nserver = \"mail\"", "notify.smtp.from: is missing"},
      {"[notify.smtp]\nfrom = \"gpuman\"", "notify.smtp.from: 'gpuman' is not an address"},
      {"[notify.smtp]\ntls = \"ssl\"", "notify.smtp.tls: 'ssl' is none of"},
      {"[notify.smtp]\nuser = \"x\"", "notify.smtp.password_file: is missing"},
      {"[notify.smtp]\nuser = \"x\"\npassword_file = \"/p\"\ntls = \"none\"", "notify.smtp.tls: a password"},
  };
  for (const auto& [text, what] : table)
    EXPECT_NE(ProblemWith(text).find(what), std::string::npos) << ProblemWith(text);
}

class SecretTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& text, mode_t mode) {
    auto file = dir.path() / "secret";
    std::ofstream(file) << text;
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return file;
  }
  base::TempDir dir;
};

TEST_F(SecretTest, IsTheFirstLine) { EXPECT_EQ(ReadSecret(Write("hush\nmore\n", 0600)), "hush"); }

TEST_F(SecretTest, IsRefusedWhereOthersCouldReadItOrThereIsNone) {
  const auto problem = [](const std::filesystem::path& file) {
    const auto secret = ReadSecret(file);
    return secret ? "" : secret.error().message;
  };
  EXPECT_NE(problem(Write("hush", 0640)).find("open to others (mode 0640)"), std::string::npos);
  EXPECT_NE(problem(Write("hush", 0604)).find("open to others"), std::string::npos);
  EXPECT_NE(problem(Write("\nhush", 0600)).find("nothing in its first line"), std::string::npos);
  EXPECT_NE(problem(dir.path() / "none").find("No such file"), std::string::npos);
  EXPECT_NE(problem(dir.path()).find("is no file"), std::string::npos);
}

TEST_F(SecretTest, IsLookedAtWithTheConfiguration) {
  const auto file = dir.path() / "gpumand.toml";
  std::ofstream(file) << "[notify]\nsecret_file = \"" << Write("hush", 0644).string() << "\"\n";
  const auto config = LoadConfig(file, true, {});
  ASSERT_FALSE(config);
  EXPECT_NE(Describe(config.error().front()).find("notify.secret_file: "), std::string::npos);
  Write("hush", 0600);
  EXPECT_TRUE(LoadConfig(file, true, {}));
}

}  // namespace
}  // namespace gpuman::daemon
