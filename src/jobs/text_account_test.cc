#include "jobs/text_account.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

Job Saying(const std::string& word, const Environment& environment) {
  Job job;
  job.command = {word};
  job.environment = environment;
  return job;
}

TEST(TextAccount, CountsTheTextOfAJob) {
  TextAccount account;
  Job job = Saying(std::string(1000, 'x'), Variables{{"A", std::string(500, 'y')}});
  spec::JobSpec asked;
  asked.script = std::string(200, 'z');
  job.spec = asked;
  account.Add(TextAccount::EntryOf(job));
  EXPECT_GE(account.bytes(), base::Bytes{1701});
  EXPECT_LE(account.bytes(), base::Bytes{2300}) << "a word has some bytes around it";
}

TEST(TextAccount, CountsTheExitCodesOfRetries) {
  spec::JobSpec asked;
  const base::Bytes without = SizeOf(asked);
  asked.retries.on_exit_codes.resize(1000);
  EXPECT_EQ(SizeOf(asked), (base::Bytes{without.count + 1000 * sizeof(int)}));
}

TEST(TextAccount, CountsOnceWhatJobsShare) {
  const Environment environment = Variables{{"A", std::string(1'000'000, 'y')}};
  TextAccount account;
  const Job job = Saying("x", environment);
  const auto entry = TextAccount::EntryOf(job);
  EXPECT_GT(account.More(entry), base::Bytes{1'000'000});
  account.Add(entry);
  const auto one = account.bytes();
  EXPECT_LT(account.More(entry), base::Bytes{100});
  for (int i = 0; i < 9; ++i) account.Add(entry);
  EXPECT_LT(account.bytes(), one + base::Bytes{1000});
  for (int i = 0; i < 9; ++i) account.Remove(entry);
  EXPECT_EQ(account.bytes(), one) << "one of them has it still";
  account.Remove(entry);
  EXPECT_EQ(account.bytes(), base::Bytes{});
}

TEST(TextAccount, ManyShortWordsCountWithWhatHoldsThem) {
  TextAccount account;
  Job job;
  job.command.assign(1000, "");
  account.Add(TextAccount::EntryOf(job));
  EXPECT_GE(account.bytes(), base::Bytes{1000 * sizeof(std::string)});
}

}  // namespace
}  // namespace gpuman::jobs
