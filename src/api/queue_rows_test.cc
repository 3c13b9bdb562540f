#include "api/queue_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::api {
namespace {

using ::testing::HasSubstr;

QueueRow FullRow() {
  QueueRow row;
  row.id = 12;
  row.array_id = 10;
  row.array_task = 2;
  row.tag = "a\tb\nc\\d";
  row.user = "ada";
  row.project = "";
  row.state = JobState::kRunning;
  row.reason = "resources";
  row.priority = 7;
  row.gpus_asked = 2;
  row.gpus = "0,3";
  row.memory = base::GiB(8);
  row.time_limit = base::Millis(60'000);
  row.submitted_at = base::WallTime(base::Millis(1'000));
  row.started_at = base::WallTime(base::Millis(2'000));
  return row;
}

std::string TextOf(const std::vector<QueueRow>& rows) {
  std::string text = QueueRowTitles();
  for (const auto& row : rows) AppendQueueRow(text, row);
  return text;
}

TEST(QueueRows, ReadBackAsTheyWereWritten) {
  const std::string text = TextOf({FullRow(), QueueRow{}});
  const auto rows = ParseQueueRows(text);
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ(rows->front().tag, "a\tb\nc\\d");
  EXPECT_EQ(rows->front().array_task, 2);
  EXPECT_EQ(rows->front().memory, base::GiB(8));
  EXPECT_EQ(rows->front().host_memory, std::nullopt);
  EXPECT_EQ(rows->front().started_at, base::WallTime(base::Millis(2'000)));
  EXPECT_EQ(TextOf(*rows), text);
}

TEST(QueueRows, GoByTheTitles) {
  const auto rows = ParseQueueRows("new\tstate\tid\nx\theld\t3\n");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->at(0).id, 3);
  EXPECT_EQ(rows->at(0).state, JobState::kHeld);
  EXPECT_TRUE(ParseQueueRows(QueueRowTitles())->empty());
}

TEST(QueueRows, NameTheLineThatIsWrong) {
  for (const auto& [text, says] : std::vector<std::pair<std::string, const char*>>{
           {"", "line 1"},
           {"tag\nx\n", "no column 'id'"},
           {"id\tstate\n1\tqueued\n2\n", "line 3 of the list of jobs: 1 fields instead of 2"},
           {"id\tstate\n1\tasleep\n", "line 2 of the list of jobs: 'state'"},
           {"id\ttag\n1\ta\\x\n", "'tag'"},
           {"id\n1x\n", "'id'"}}) {
    const auto rows = ParseQueueRows(text);
    ASSERT_FALSE(rows) << text;
    EXPECT_EQ(rows.error().code, base::ErrorCode::kCorrupt);
    EXPECT_THAT(rows.error().message, HasSubstr(says));
  }
}

}  // namespace
}  // namespace gpuman::api
