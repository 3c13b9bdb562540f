#include "cli/mps_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

api::MpsReport ReportOf(int protocol) {
  api::MpsProcess client;
  client.pid = 812;
  client.user = "ann";
  client.name = "python";
  client.job = 7;
  client.tag = "train";
  client.threads = 25;
  api::MpsServer server;
  server.pid = 800;
  server.user = "ann";
  server.clients = {client};
  api::MpsGpu gpu;
  gpu.index = 0;
  gpu.name = "H200";
  gpu.state = "running";
  gpu.pid = 700;
  gpu.protocol = protocol;
  gpu.servers = {server};
  return {"/usr/bin/nvidia-cuda-mps-control", {gpu}, {}};
}

TEST(MpsView, ByProtocol2ServersHaveNoNames) {
  const auto shown = RenderMps(ReportOf(2), {});
  EXPECT_THAT(shown, ContainsRegex("H200 +running +2 +700 "));
  EXPECT_THAT(shown, ContainsRegex("0 +800 +812 +ann +python +7 train +25% "));
  EXPECT_THAT(shown, Not(HasSubstr("NAMESPACE")));
}

TEST(MpsView, ByProtocol3AServerHasANameAndAClientANamespace) {
  auto report = ReportOf(3);
  auto& server = report.gpus[0].servers[0];
  server.name = "u1000";
  server.namespaces = {{"default", {}, {}, {}}, {"job7", 7, 25.0, {}}};
  server.clients[0].name_space = "job7";
  EXPECT_THAT(RenderMps(report, {}), ContainsRegex("0 +800 +u1000 +job7 +812 +ann +python +7 train +25% "));
  server.clients.clear();
  EXPECT_THAT(RenderMps(report, {}), ContainsRegex("0 +800 +u1000 +- +none +ann "));
}

TEST(MpsView, WhereNoneRunsNoProtocolIsNamed) {
  auto report = ReportOf(2);
  report.gpus[0] = {};
  report.gpus[0].index = 1;
  report.gpus[0].name = "H200";
  EXPECT_THAT(RenderMps(report, {}), ContainsRegex("1 +H200 +off +- +- "));
}

}  // namespace
}  // namespace gpuman::cli
