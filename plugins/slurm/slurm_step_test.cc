#include "plugins/slurm/slurm_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::slurm {
namespace {

using base::ErrorCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Variables = std::map<std::string, std::string>;

SlurmStep StepWith(Variables variables) {
  SlurmStep step;
  step.job = 12;
  step.uid = 1000;
  step.daemon = 77;
  step.command = {"python", "train.py"};
  step.variable = [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return step;
}

SlurmStep OnGpu(const char* gpu = "0") {
  return StepWith({{"CUDA_VISIBLE_DEVICES", gpu}, {"SLURM_STEP_GPUS", gpu}});
}

api::AttachRequest Asked(const SlurmStep& step, const PluginSettings& settings = {}) {
  auto request = RequestFor(step, settings);
  EXPECT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request && *request);
  return request.value_or(std::nullopt).value_or(api::AttachRequest{});
}

struct Words {
  const char* what;
  std::vector<std::string_view> words;
  const char* refusal;  // part of the message; "": accepted
};

TEST(SlurmSettings, AreTheArgumentsOfThePluginLine) {
  const std::vector<Words> table{
      {"nothing", {}, ""},
      {"all",
       {"socket=/s", "required=yes", "timeout=250ms", "shard=512MiB", "share=whole", "preload=no"},
       ""},
      {"misspelt", {"requird=yes"}, "requird"},
      {"no value", {"required"}, "yes or no"},
      {"another value", {"required=maybe"}, "required=maybe"},
      {"a relative path", {"socket=gpumand.sock"}, "absolute"},
      {"no time", {"timeout=soon"}, "timeout=soon"},
      {"no time at all", {"timeout=0s"}, "100ms"},
      {"too long", {"timeout=2m"}, "60s"},
      {"no size", {"shard=0"}, "shard=0"},
      {"neither", {"share=all"}, "shards or whole"},
  };
  for (const auto& row : table) {
    const auto settings = ParseSettings(row.words);
    EXPECT_EQ(settings.has_value(), !*row.refusal) << row.what;
    if (settings) continue;
    EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument) << row.what;
    EXPECT_THAT(settings.error().message, HasSubstr(row.refusal)) << row.what;
  }
  const auto all = ParseSettings(table[1].words).value();
  EXPECT_EQ(all.socket, "/s");
  EXPECT_TRUE(all.required);
  EXPECT_EQ(all.patience, base::Millis(250));
  EXPECT_EQ(all.shard, base::MiB(512));
  EXPECT_TRUE(all.share_whole);
  EXPECT_FALSE(all.preload);
}

TEST(SlurmOptions, AreSizesInBytesOrPercent) {
  EXPECT_EQ(ParseLimit(kMemoryOption, "8GiB")->bytes, base::GiB(8));
  EXPECT_EQ(ParseLimit(kMemoryOption, "1024")->bytes, base::KiB(1));
  EXPECT_EQ(ParseLimit(kMemoryOption, "50%")->percent, 50);
  for (const char* bad : {"", "0", "8 apples", "101%", "0%", "-1", "99999999999G"}) {
    const auto limit = ParseLimit(kSoftOption, bad);
    ASSERT_FALSE(limit) << bad;
    EXPECT_THAT(limit.error().message, HasSubstr(std::string("--gpuman-soft=") + bad));
    EXPECT_THAT(limit.error().message, HasSubstr("a size is expected"));
  }
}

TEST(SlurmOptions, AShareOfTheTimeIsAPercentage) {
  EXPECT_EQ(*ParseCompute("30%+"), (spec::ComputeShare{30, true}));
  for (const char* bad : {"", "0%", "101%", "30", "a lot"}) {
    const auto share = ParseCompute(bad);
    ASSERT_FALSE(share) << bad;
    EXPECT_THAT(share.error().message, HasSubstr("--gpuman-compute: '" + std::string(bad) + "'"));
    EXPECT_THAT(share.error().message, HasSubstr("30%+"));
  }
}

TEST(SlurmStep, AsksForAShareOfTheTimeOfAGpuThatItShares) {
  SlurmStep step = OnGpu();
  step.compute = "40%";
  EXPECT_THAT(RequestFor(step, {}).error().message, HasSubstr("add --gpuman-share"));
  step.share = true;
  EXPECT_EQ((*RequestFor(step, {}))->compute, (spec::ComputeShare{40, false}));
  step.compute = "0%";
  EXPECT_FALSE(RequestFor(step, {}));
}

TEST(SlurmStep, GoesFirstOnlyOnAGpuThatItShares) {
  SlurmStep step = OnGpu();
  step.latency = true;
  EXPECT_THAT(RequestFor(step, {}).error().message,
              HasSubstr("--gpuman-latency: a step that does not share its GPUs has nobody to go before; add "
                        "--gpuman-share"));
  step.share = true;
  EXPECT_TRUE((*RequestFor(step, {}))->latency);
  step.latency = false;
  EXPECT_FALSE((*RequestFor(step, {}))->latency);
}

TEST(SlurmStep, HasATagThatNamesJobAndStep) {
  SlurmStep step = OnGpu();
  EXPECT_EQ(TagOf(step), "slurm-12.0");
  step.step = 0xfffffffb;
  EXPECT_EQ(TagOf(step), "slurm-12.batch");
  step.step = 0xfffffffa;
  EXPECT_EQ(TagOf(step), "slurm-12.interactive");
  step.step = 0xfffffffc;
  EXPECT_EQ(TagOf(step), "slurm-12.extern");
}

struct Gpus {
  const char* what;
  Variables variables;
  bool batch;
  std::vector<std::string> gpus;
};

TEST(SlurmStep, HasTheGpusThatSlurmGaveIt) {
  const std::vector<Gpus> table{
      {"none", {}, false, {}},
      {"none, said so", {{"CUDA_VISIBLE_DEVICES", ""}}, false, {}},
      {"none, as Slurm says so", {{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}, false, {}},
      {"by the node's numbers, not by what it sees",
       {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "2,3"}, {"SLURM_JOB_GPUS", "1,2,3"}},
       false,
       {"2", "3"}},
      {"a script by its job's",
       {{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0"}, {"SLURM_JOB_GPUS", "5"}},
       true,
       {"5"}},
      {"by UUID",
       {{"CUDA_VISIBLE_DEVICES", "MIG-1,GPU-2"}, {"SLURM_STEP_GPUS", "7"}},
       false,
       {"MIG-1", "GPU-2"}},
      {"by what it sees, for want of more", {{"CUDA_VISIBLE_DEVICES", "1"}}, false, {"1"}},
  };
  for (const auto& row : table) {
    SlurmStep step = StepWith(row.variables);
    if (row.batch) step.step = 0xfffffffb;
    const auto request = RequestFor(step, {});
    ASSERT_TRUE(request) << row.what;
    EXPECT_EQ(request->has_value(), !row.gpus.empty()) << row.what;
    EXPECT_EQ(request->value_or(api::AttachRequest{}).gpus, row.gpus) << row.what;
  }
}

TEST(SlurmStep, IsAskedForAsItsUsersJob) {
  SlurmStep step = OnGpu();
  step.memory = "2GiB";
  step.soft = "50%";
  step.share = true;
  const auto request = Asked(step);
  EXPECT_EQ(request.pid, 77);
  EXPECT_EQ(request.tag, "slurm-12.0");
  EXPECT_EQ(request.uid, 1000);
  EXPECT_THAT(request.command, ElementsAre("python", "train.py"));
  EXPECT_EQ(request.memory->bytes, base::GiB(2));
  EXPECT_EQ(request.soft->percent, 50);
  EXPECT_TRUE(request.share);
  EXPECT_TRUE(request.preload);
  EXPECT_FALSE(request.at_most);
}

TEST(SlurmStep, WrongOptionIsRefusedByName) {
  SlurmStep step = OnGpu();
  step.memory = "lots";
  EXPECT_THAT(RequestFor(step, {}).error().message, HasSubstr("--gpuman-mem=lots"));
}

TEST(SlurmStep, IsHeldToItsShards) {
  SlurmStep step =
      StepWith({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0"}, {"SLURM_SHARDS_ON_NODE", "3"}});
  EXPECT_EQ(Asked(step).at_most, base::GiB(3));
  PluginSettings settings;
  settings.shard = base::MiB(256);
  EXPECT_EQ(Asked(step, settings).at_most, base::MiB(768));
  settings.share_whole = true;
  EXPECT_TRUE(Asked(step, settings).at_most) << "it does not share";
  step.share = true;
  EXPECT_FALSE(Asked(step, settings).at_most);
  EXPECT_TRUE(Asked(step).at_most) << "who shares is bound by them, unless it is configured";
}

TEST(SlurmStep, WithShardsThatAreNoNumberIsRefused) {
  for (const char* bad : {"0", "-1", "three", "3x", "99999999999999999999"}) {
    const auto step =
        StepWith({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0"}, {"SLURM_SHARDS_ON_NODE", bad}});
    EXPECT_FALSE(RequestFor(step, {})) << bad;
  }
}

TEST(SlurmEnvironment, HasTheShimBeforeWhatIsPreloadedAndOnce) {
  api::AttachAnswer attached;
  attached.environment = {{"LD_PRELOAD", "/shim.so"}, {"GPUMAN_JOB_ID", "7"}};
  const auto preload = [&](const std::string& before) {
    return EnvironmentFor(attached, before).at("LD_PRELOAD");
  };
  EXPECT_EQ(preload(""), "/shim.so");
  EXPECT_EQ(preload("/other.so"), "/shim.so:/other.so");
  EXPECT_EQ(preload("/shim.so"), "/shim.so");
  EXPECT_EQ(preload("/shim.so:/other.so"), "/shim.so:/other.so");
  attached.environment.erase("LD_PRELOAD");
  EXPECT_THAT(EnvironmentFor(attached, "/other.so"), ElementsAre(Pair("GPUMAN_JOB_ID", "7")));
}

TEST(SlurmTask, StartsWithoutGpumandUnlessItIsRequired) {
  PluginSettings careless, careful;
  careful.required = true;
  for (const auto code :
       {ErrorCode::kUnavailable, ErrorCode::kTimeout, ErrorCode::kConflict, ErrorCode::kInternal}) {
    const base::Error error{code, "gpumand is away", {}};
    EXPECT_TRUE(OnError(error, careless).may_start);
    EXPECT_THAT(OnError(error, careless).message, HasSubstr("without limits"));
    EXPECT_FALSE(OnError(error, careful).may_start);
    EXPECT_THAT(OnError(error, careful).message, HasSubstr("gpumand is away"));
  }
}

TEST(SlurmTask, TaskWithImpossibleRequestDoesNotStart) {
  for (const auto code : {ErrorCode::kInvalidArgument, ErrorCode::kUnsatisfiable}) {
    const auto refusal = OnError({code, "more than GPU 0 has", "ask for less"}, {});
    EXPECT_FALSE(refusal.may_start);
    EXPECT_EQ(refusal.message, "gpuman: more than GPU 0 has (ask for less)");
  }
}

}  // namespace
}  // namespace gpuman::slurm
