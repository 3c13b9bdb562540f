#include "cli/queue/wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/compat/gflow/dialect.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;

std::string Said(std::string message, const CommandDialect& dialect = kGpuman) {
  return WithOptionNames({ErrorCode::kInvalidArgument, std::move(message), ""}, dialect).message;
}

TEST(Wording, FieldsOfTheApiAreSaidAsOptions) {
  EXPECT_EQ(Said("time_limit_s: it is zero"), "--time: it is zero");
  EXPECT_EQ(Said("warn_before_s: there is no time limit to warn of; give time_limit_s"),
            "--warn: there is no time limit to warn of; give --time");
  EXPECT_EQ(Said("gpus.model: it says which GPUs, and gpus.count says that there are none"),
            "--gpu-model: it says which GPUs, and --gpus says that there are none");
  EXPECT_EQ(Said("memory: a job that shares"), "--memory: a job that shares");
  EXPECT_EQ(Said("stdin: it is empty"), "--input: it is empty");
  EXPECT_EQ(Said("retries.delay_s: it is negative"), "--retry-delay: it is negative");
  EXPECT_EQ(Said("notify.webhooks: it is empty"), "--notify-url: it is empty");
  EXPECT_EQ(Said("stderr: it is empty"), "--error: it is empty");
  EXPECT_EQ(Said("grace: it is negative"), "--grace: it is negative");
  EXPECT_EQ(Said("memory: a job that shares", gflow::kDialect), "--gpu-memory: a job that shares");
}

TEST(Wording, FieldsOfAChangeAreSaidAsOptions) {
  EXPECT_EQ(Said("queue.name: it is empty"), "--name: it is empty");
  EXPECT_EQ(Said("changes.queue.gpus.devices: '0' is there twice"), "--gpu: '0' is there twice");
  EXPECT_EQ(Said("array_limit: 0 lies outside 1 to 100000"), "--array-limit: 0 lies outside 1 to 100000");
  EXPECT_EQ(Said("queue.command: it is empty"), "--command: it is empty");
  EXPECT_EQ(Said("queue.script: there is a command as well"), "--script: there is a command as well");
}

TEST(Wording, FieldsOfAReservationAreSaidAsOptions) {
  const auto said = [](std::string message) {
    return WithReservationOptions({ErrorCode::kInvalidArgument, std::move(message), ""}).message;
  };
  EXPECT_EQ(said("count: no GPU is reserved"), "--gpus: no GPU is reserved");
  EXPECT_EQ(said("duration_s: it is zero"), "--duration: it is zero");
  EXPECT_EQ(said("start: the reservation would be over already"),
            "--start: the reservation would be over already");
  EXPECT_EQ(said("the user may not do that"), "the user may not do that");
}

TEST(Wording, WordsOfSentencesStay) {
  EXPECT_EQ(Said("it asks for 8GiB of the machine's memory; the name is fine"),
            "it asks for 8GiB of the machine's memory; the name is fine");
  EXPECT_EQ(Said("my_host_memory_s is no field"), "my_host_memory_s is no field");
}

TEST(Wording, AJobOfAFileIsNamedByItsLine) {
  const std::vector<std::string> origins{"list.txt:1", "list.txt:4", ""};
  const auto said = [&](std::string message) {
    return WithOrigins({ErrorCode::kUnsatisfiable, std::move(message), ""}, origins, kGpuman).message;
  };
  EXPECT_EQ(said("jobs[1].memory: too much"), "list.txt:4: --memory: too much");
  EXPECT_EQ(said("jobs[0]: it asks for 9 GPUs"), "list.txt:1: it asks for 9 GPUs");
  EXPECT_EQ(said("jobs[2].memory: too much"), "jobs[2].memory: too much")
      << "nobody knows where it came from";
  EXPECT_EQ(said("jobs[0]: gpus.count: it asks for 9 GPUs"), "list.txt:1: --gpus: it asks for 9 GPUs");
  EXPECT_EQ(said("jobs[7]: there is none"), "jobs[7]: there is none");
}

TEST(Wording, AnOptionOfAScriptIsNamedByItsLine) {
  const OptionLines lines{{"--cpus", "job.sh:3"}, {"--memory", "job.sh:4"}, {"--gpus", ""}};
  const auto said = [&](std::string message, const CommandDialect& dialect = kGpuman) {
    return WithOrigins({ErrorCode::kUnsatisfiable, std::move(message), ""}, {}, dialect, lines).message;
  };
  EXPECT_EQ(said("cpus: it asks for 4 processors"), "job.sh:3: --cpus: it asks for 4 processors");
  EXPECT_EQ(said("memory: too much", gflow::kDialect), "job.sh:4: --gpu-memory: too much");
  EXPECT_EQ(said("gpus.count: it asks for 9 GPUs"), "--gpus: it asks for 9 GPUs")
      << "typed on the command line";
  EXPECT_EQ(said("host_memory: too much"), "--host-memory: too much");
}

}  // namespace
}  // namespace gpuman::cli::queue
