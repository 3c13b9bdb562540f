#include "daemon/job_requests/attach_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using testing::ElementsAre;

std::string Uuid(unsigned i) { return fmt::format("GPU-{:08}-0000-0000-0000-000000000000", i); }

// GPU 0 has 8 GiB, GPU 1 has 16.
gpu::Inventory Machine() {
  gpu::Inventory inventory;
  inventory.gpus.push_back({0, Uuid(0), "A", "", base::GiB(8)});
  inventory.gpus.push_back({1, Uuid(1), "B", "", base::GiB(16)});
  return inventory;
}

api::AttachRequest Step() {
  api::AttachRequest request;
  request.pid = 100;
  request.tag = "slurm-7.0";
  return request;
}

const Caller kOwner{1000, 1000, {}, "lab1"};
const AttachedProcess kRoot{0, {"slurmstepd: [7.0]"}};

base::Result<jobs::Job> Made(const api::AttachRequest& request) {
  return JobFromAttachRequest(request, kOwner, kRoot, Machine());
}

struct Limit {
  const char* what;
  const char* memory;   // "": not asked for
  const char* at_most;  // "": nothing was allotted
  std::vector<std::string> gpus;
  base::SizeSpec limit;
};

TEST(AttachRequest, TheLimitIsWhatWasAskedForWithinWhatWasAllotted) {
  const std::vector<Limit> table{
      {"as asked", "2GiB", "", {"0"}, {base::GiB(2)}},
      {"a share", "50%", "", {"0"}, {base::Bytes{}, 50}},
      {"allotted", "", "3GiB", {"0"}, {base::GiB(3)}},
      {"asked for less", "2GiB", "3GiB", {"0"}, {base::GiB(2)}},
      {"asked for more", "4GiB", "3GiB", {"0"}, {base::GiB(3)}},
      {"a share that is less", "25%", "3GiB", {"0"}, {base::GiB(2)}},
      {"a share of the smaller of two", "50%", "6GiB", {"0", "1"}, {base::GiB(4)}},
      {"a share that is more", "50%", "3GiB", {"1"}, {base::GiB(3)}},
      {"allotted more than there is", "", "9GiB", {"0"}, {base::GiB(8)}},
      {"of any GPU", "", "9GiB", {}, {base::GiB(8)}},
  };
  for (const auto& row : table) {
    auto request = Step();
    if (*row.memory) request.memory = base::ParseSize(row.memory).value();
    if (*row.at_most) request.at_most = base::ParseBytes(row.at_most).value();
    request.gpus = row.gpus;
    const auto job = Made(request);
    ASSERT_TRUE(job) << row.what << ": " << job.error().message;
    EXPECT_EQ(job->spec->memory->bytes, row.limit.bytes) << row.what;
    EXPECT_EQ(job->spec->memory->percent, row.limit.percent) << row.what;
  }
}

TEST(AttachRequest, RequestWithoutLimitsMakesJobWithoutLimits) {
  const auto job = Made(Step());
  ASSERT_TRUE(job);
  EXPECT_FALSE(job->spec->memory);
  EXPECT_FALSE(job->spec->soft);
  EXPECT_THAT(job->command, ElementsAre("slurmstepd: [7.0]"));
  EXPECT_EQ(job->owner->user, "lab1");
}

TEST(AttachRequest, TheJobHasTheOptionsThatWereAskedFor) {
  auto request = Step();
  request.gpus = {"0"};
  request.soft = base::ParseSize("2GiB").value();
  request.share = request.latency = true;
  request.compute = {25, true};
  const auto job = Made(request);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(static_cast<const spec::AttachOptions&>(*job->spec), request);
}

TEST(AttachRequest, ASoftLimitIsNeverAboveTheHardOne) {
  auto request = Step();
  request.at_most = base::GiB(3);
  request.soft = base::ParseSize("5GiB").value();
  const auto job = Made(request);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->spec->soft->bytes, base::GiB(3));
}

TEST(AttachRequest, InvalidRequestIsRefusedWithItsReason) {
  auto request = Step();
  request.at_most = base::Bytes{0};
  EXPECT_EQ(Made(request).error().code, ErrorCode::kInvalidArgument);
  request = Step();
  request.gpus = {"7"};
  EXPECT_EQ(Made(request).error().code, ErrorCode::kNotFound);
  request = Step();
  request.memory = base::ParseSize("9GiB").value();
  request.gpus = {"0"};
  EXPECT_EQ(Made(request).error().code, ErrorCode::kUnsatisfiable);
  request = Step();
  request.tag = "a b";
  EXPECT_EQ(Made(request).error().code, ErrorCode::kInvalidArgument);
}

TEST(AttachRequest, OnlyRootAttachesProcessesOfOtherUsers) {
  auto request = Step();
  EXPECT_TRUE(MayAttach(request, 0, 1000));
  EXPECT_TRUE(MayAttach(request, 1000, 1000));
  EXPECT_EQ(MayAttach(request, 1000, 0).error().code, ErrorCode::kPermissionDenied);
  request.uid = 1000;
  EXPECT_TRUE(MayAttach(request, 0, 0));
  EXPECT_TRUE(MayAttach(request, 1000, 1000));
  request.uid = 1001;
  EXPECT_EQ(MayAttach(request, 1000, 1000).error().code, ErrorCode::kPermissionDenied);
}

TEST(OwnerOfAttached, UnknownUserIsInNoGroup) {
  constexpr uid_t kUnknown = 4'000'000;
  EXPECT_EQ(OwnerOf(Step(), {kUnknown, 77, 1}).gid, 77u) << "as the caller says";
  auto request = Step();
  request.uid = kUnknown;
  EXPECT_EQ(OwnerOf(request, {0, 0, 1}).uid, kUnknown);
  EXPECT_EQ(OwnerOf(request, {0, 0, 1}).gid, http::kNobody)
      << "who is not in the user database is in no group";
  request.uid = 0;
  EXPECT_EQ(OwnerOf(request, {0, 0, 1}).user, "root");
  EXPECT_EQ(OwnerOf(request, {0, 0, 1}).gid, 0u);
}

}  // namespace
}  // namespace gpuman::daemon
