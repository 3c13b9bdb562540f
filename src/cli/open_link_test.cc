#include "cli/open_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/test_temp_dir.h"

namespace gpuman::cli {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kLink = "http://127.0.0.1:4711/#secret=6f3c";

base::EnvironmentLookup With(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

class OpenLinkTest : public ::testing::Test {
 protected:
  // A program in a folder of its own.
  std::filesystem::path Opener(const std::string& script) {
    auto path = directory_.path() / "xdg-open";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ::chmod(path.c_str(), 0755);
    return path;
  }
  base::Result<std::unique_ptr<OpenedLink>> Open(const std::filesystem::path& opener) {
    return OpenedLink::Open(opener, folder_, kLink, [this](const std::string& why) {
      why_ = why;
      ended_ = true;
      ended_.notify_one();
    });
  }
  // The files that lead to links.
  std::size_t Files() const {
    std::error_code none;
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_, none),
                                                  std::filesystem::directory_iterator()));
  }

  base::TempDir directory_;
  std::filesystem::path folder_ = directory_.path() / "run";
  std::string why_;
  std::atomic<bool> ended_{false};
};

TEST_F(OpenLinkTest, ABrowserIsOpenedWhereThereIsADisplayAndNoSsh) {
  const auto why = [](std::map<std::string, std::string> values,
                      const std::optional<std::filesystem::path>& opener = "/usr/bin/xdg-open") {
    return WhyNoBrowser(With(std::move(values)), opener).value_or("");
  };
  EXPECT_EQ(why({{"DISPLAY", ":0"}}), "");
  EXPECT_EQ(why({{"WAYLAND_DISPLAY", "wayland-0"}}), "");
  EXPECT_THAT(why({}), HasSubstr("neither DISPLAY nor WAYLAND_DISPLAY is set"));
  EXPECT_THAT(why({{"DISPLAY", "localhost:10.0"}, {"SSH_CONNECTION", "192.0.2.7 1 192.0.2.8 22"}}),
              HasSubstr("other end of ssh"));
  EXPECT_THAT(why({{"DISPLAY", ":0"}}, std::nullopt), HasSubstr("xdg-open is not in PATH"));
}

TEST_F(OpenLinkTest, TheOpenerIsTheFirstInPathThatCanBeExecuted) {
  const auto path = Opener("");
  const auto folders = "relative::/nowhere:" + directory_.path().string();
  EXPECT_EQ(BrowserOpener(With({{"PATH", folders}})), path);
  ::chmod(path.c_str(), 0644);
  EXPECT_EQ(BrowserOpener(With({{"PATH", folders}})), std::nullopt);
}

TEST_F(OpenLinkTest, ThePageLeadsToTheLink) {
  EXPECT_THAT(PageThatLeadsTo(kLink),
              HasSubstr("<meta http-equiv=\"refresh\" content=\"0; url=" + std::string(kLink) + "\">"));
}

TEST_F(OpenLinkTest, TheProgramGetsAFileThatOthersCannotReadAndNotTheLink) {
  const auto told = directory_.path() / "told";
  ASSERT_EQ(::mkfifo(told.c_str(), 0600), 0);
  const auto opened = Open(
      Opener("{ echo \"$#\"; stat -c %a \"$1\"; tr '\\0' ' ' < /proc/$$/cmdline; echo; cat \"$1\"; } > " +
             told.string() + "\n"));
  ASSERT_TRUE(opened) << opened.error().message;
  std::ifstream from(told);
  std::string count, mode, command, page;
  std::getline(from, count);
  std::getline(from, mode);
  std::getline(from, command);
  std::getline(from, page, '\0');
  EXPECT_EQ(count, "1");
  EXPECT_EQ(mode, "600");
  EXPECT_THAT(command, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(page, PageThatLeadsTo(kLink));
}

TEST_F(OpenLinkTest, TheFileIsThereAsLongAsTheObject) {
  const auto gate = directory_.path() / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  {
    const auto opened = Open(Opener("read line < " + gate.string() + "\n"));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(Files(), 1U);
  }
  EXPECT_EQ(Files(), 0U);
  EXPECT_FALSE(ended_) << "that the program goes on is no failure";
  std::ofstream{gate} << "end\n";
}

TEST_F(OpenLinkTest, AProgramThatFailsIsTold) {
  const auto opened = Open(Opener("exit 3\n"));
  ASSERT_TRUE(opened) << opened.error().message;
  ended_.wait(false);
  EXPECT_EQ(why_, "xdg-open ended with exit status 3");
}

TEST_F(OpenLinkTest, AProgramThatCannotBeStartedLeavesNoFile) {
  EXPECT_FALSE(Open(directory_.path() / "missing"));
  EXPECT_EQ(Files(), 0U);
}

}  // namespace
}  // namespace gpuman::cli
