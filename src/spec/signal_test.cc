#include "spec/signal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace gpuman::spec {
namespace {

using base::json::DurationForm;
using base::json::Json;
using base::json::JsonFormat;

TEST(Signal, IsFoundByTheUsualWaysToWriteIt) {
  EXPECT_EQ(SignalOf("SIGUSR1"), Signal{SIGUSR1});
  EXPECT_EQ(SignalOf("term"), Signal{SIGTERM});
  EXPECT_EQ(SignalOf("KILL"), std::nullopt);
  EXPECT_EQ(SignalOf("10"), std::nullopt);
  EXPECT_EQ(SignalOf(""), std::nullopt);
}

TEST(Signal, HasItsNameForPeopleAndItsNumberInRecords) {
  const JsonFormat people{.durations = DurationForm::kSeconds}, record{.durations = DurationForm::kMillis};
  EXPECT_EQ(base::json::ToText(Signal{SIGUSR2}, people), R"("USR2")");
  EXPECT_EQ(base::json::ToText(Signal{SIGUSR2}, record), "12");
  EXPECT_EQ(base::json::FromJson<Signal>(Json("SIGUSR2"), people, "it"), Signal{SIGUSR2});
  EXPECT_EQ(base::json::FromJson<Signal>(Json(12), record, "it"), Signal{SIGUSR2});
  EXPECT_EQ(base::json::FromJson<Signal>(Json("KILL"), people, "it").error().message,
            "it cannot be read: 'KILL' is no signal that a program can be warned with");
  EXPECT_FALSE(base::json::FromJson<Signal>(Json(12), people, "it"));
}

}  // namespace
}  // namespace gpuman::spec
