#include <gtest/gtest.h>

#include <sstream>

#include "notify/outbox_message.h"

namespace gpuman::notify {
namespace {

Notification Named(const std::string& name) {
  Notification notification;
  notification.event = "finished";
  notification.message = "finished";
  notification.host = "box";
  notification.at = base::WallTime(base::Millis(1'700'000'000'000));
  notification.job = 7;
  notification.name = name;
  notification.user = "ann";
  notification.state = "finished";
  notification.exit_code = 0;
  return notification;
}

std::vector<std::string> HeadersOf(const std::string& mail) {
  std::vector<std::string> headers;
  std::istringstream lines(mail.substr(0, mail.find("\r\n\r\n")));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with(' '))
      headers.back() += line;
    else
      headers.push_back(line);
  }
  return headers;
}

std::string Header(const std::string& mail, const std::string& name) {
  for (const auto& header : HeadersOf(mail))
    if (header.starts_with(name + ": ")) return header.substr(name.size() + 2);
  return "none";
}

TEST(Mail, IsPlainWhereEverythingIsAscii) {
  EXPECT_EQ(MailOf(Named("train"), "d1", "ada@example.org"),
            "To: ada@example.org\r\n"
            "Subject: [gpuman] 7 train: finished\r\n"
            "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
            "Message-ID: <d1@box>\r\n"
            "Auto-Submitted: auto-generated\r\n"
            "Gpuman-Delivery: d1\r\n"
            "MIME-Version: 1.0\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            "Content-Transfer-Encoding: 7bit\r\n"
            "\r\n"
            "Job 7 'train' of ann on box: finished\r\n"
            "\r\n"
            "finished\r\n"
            "\r\n"
            "state      finished\r\n"
            "exit       0\r\n"
            "\r\n"
            "gpuman job show 7\r\n"
            "gpuman job log 7\r\n");
}

TEST(Mail, HasTheNotesOfTheJob) {
  Notification notification = Named("train");
  notification.notes = {"its limit was 3GiB", "a\r\nb"};
  EXPECT_NE(MailOf(notification, "d1", "ada@example.org")
                .find("\r\nfinished\r\n\r\nits limit was 3GiB\r\n\r\na  b\r\n\r\nstate      finished\r\n"),
            std::string::npos);
}

TEST(Mail, WithOtherCharactersIsEncoded) {
  const auto mail = MailOf(Named("Übung"), "d", "a@b");
  EXPECT_EQ(Header(mail, "Subject"), "=?UTF-8?B?W2dwdW1hbl0gNyDDnGJ1bmc6IGZpbmlzaGVk?=");
  EXPECT_EQ(Header(mail, "Content-Transfer-Encoding"), "base64");
  for (const char c : mail) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Mail, KeepsLongSubjectsInLinesOfTheLengthThatIsAllowed) {
  std::string name;
  for (int i = 0; i < 60; ++i) name += "語";
  const auto mail = MailOf(Named(name), "d", "a@b");
  std::istringstream lines(mail);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 79U) << line;
  EXPECT_TRUE(Header(mail, "Subject").find("?= =?UTF-8?B?") != std::string::npos);
}

TEST(Mail, HasNoHeaderThatAJobWroteIntoIt) {
  for (const char* const name :
       {"x\r\nBcc: everybody@example.org", "x\nBcc: y", "x\r\n\r\nbody", "=?UTF-8?Q?=0D=0ABcc:_y?="}) {
    Notification notification = Named(name);
    notification.message = std::string("a\r\n.\r\nQUIT\r\n") + name;
    notification.project = name;
    const auto mail = MailOf(notification, "d", "a@b");
    EXPECT_EQ(HeadersOf(mail).size(), 9U) << mail;
    EXPECT_EQ(Header(mail, "Bcc"), "none");
    EXPECT_EQ(Header(mail, "Subject").find("=?UTF-8?Q"), std::string::npos);
    EXPECT_EQ(mail.find("\r\n.\r\n"), std::string::npos);
  }
}

TEST(Mail, HasNoCharactersThatChangeHowOthersAreShown) {
  const auto mail = MailOf(Named("a\u202Etxt\u2066b"), "d", "a@b");
  EXPECT_EQ(Header(mail, "Subject"), "[gpuman] 7 a txt b: finished");
  EXPECT_EQ(Header(MailOf(Named("a\xff"), "d", "a@b"), "Subject"), "[gpuman] 7 a : finished");
}

TEST(Mail, HasNoLineThatIsTooLong) {
  Notification notification = Named("x");
  notification.message = std::string(5000, 'y');
  const auto mail = MailOf(notification, "d", "a@b");
  EXPECT_EQ(Header(mail, "Content-Transfer-Encoding"), "base64");
  std::istringstream lines(mail);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 78U);
}

}  // namespace
}  // namespace gpuman::notify
