#include "daemon/containers/containers.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

using base::MonoTime;
using std::chrono::seconds;

const std::string kId(64, 'a');
const std::string kUid = "2c48913c-b29f-11e7-9350-020968147796";

class ContainersTest : public ::testing::Test {
 protected:
  ContainersTest() { Make(); }
  void Make() {
    Containers::Callbacks callbacks;
    callbacks.container_of = [this](pid_t pid) -> std::optional<base::ProcessContainer> {
      ++reads;
      if (pid != 7 && pid != 8) return std::nullopt;
      return base::ProcessContainer{{kId, pid == 7 ? kUid : "", {}, "", "/x"}, "/x"};
    };
    callbacks.hold = [this](const auto&, const auto& given, pid_t) { held.push_back(given.container); };
    callbacks.is_held = [](const auto&) { return false; };
    containers.emplace(dir.path(), std::move(callbacks));
  }
  void Name(const std::string& container) {
    std::filesystem::create_directories(dir.path() / "containers");
    std::ofstream(dir.path() / "containers" / ("train_team_" + container + "-" + kId + ".log")) << "";
  }
  void Tell(const std::string& container) {
    containers->SetTable({{"team", "train", container, "r", {"GPU-a"}, base::GiB(1), false, {}}});
  }

  const base::TempDir dir;
  std::optional<Containers> containers;
  int reads = 0;
  std::vector<std::string> held;
  const MonoTime now{seconds(100)};
};

TEST_F(ContainersTest, ListedContainerBecomesJobOnceAtFirstProcess) {
  Name("main");
  Tell("main");
  EXPECT_TRUE(containers->IsComing({7, 1}, now));
  EXPECT_TRUE(containers->IsComing({7, 1}, now)) << "until its job is there";
  EXPECT_EQ(held, std::vector<std::string>{"main"});
  EXPECT_FALSE(containers->TakeWaits());
}

TEST_F(ContainersTest, ProcessOfPodWaitsUntilTableIsKnown) {
  Name("main");
  EXPECT_TRUE(containers->IsComing({7, 1}, now));
  EXPECT_FALSE(containers->IsComing({8, 1}, now)) << "a container, but no pod's";
  EXPECT_FALSE(containers->IsComing({9, 1}, now)) << "in no container";
  EXPECT_TRUE(held.empty());
  Tell("main");
  EXPECT_TRUE(containers->IsComing({7, 1}, now));
  EXPECT_EQ(held, std::vector<std::string>{"main"});
}

TEST_F(ContainersTest, ProcessWaitsForContainerNameUntilTimeLimit) {
  std::filesystem::create_directories(dir.path() / "pods" / ("team_train_" + kUid));
  Tell("main");
  EXPECT_TRUE(containers->IsComing({7, 1}, now));
  EXPECT_TRUE(containers->TakeWaits());
  EXPECT_FALSE(containers->TakeWaits());
  EXPECT_TRUE(held.empty());
  EXPECT_TRUE(containers->IsComing({7, 1}, now + seconds(60))) << "it never does: the pod says enough";
  EXPECT_EQ(held, std::vector<std::string>{"main"});
}

TEST_F(ContainersTest, UnlistedContainerIsForeignUntilTableChanges) {
  Name("proxy");
  Tell("main");
  EXPECT_FALSE(containers->IsComing({7, 1}, now));
  reads = 0;
  EXPECT_FALSE(containers->IsComing({7, 1}, now));
  EXPECT_EQ(reads, 0) << "nothing is read again";
  Tell("main");
  EXPECT_FALSE(containers->IsComing({7, 1}, now));
  EXPECT_EQ(reads, 0) << "nor for the same table";
  Tell("proxy");
  EXPECT_TRUE(containers->IsComing({7, 1}, now));
  EXPECT_EQ(held, std::vector<std::string>{"proxy"});
}

TEST_F(ContainersTest, ContainerWithoutJobIsNotTriedAgain) {
  Name("main");
  Tell("main");
  EXPECT_TRUE(containers->IsComing({7, 1}, now));
  containers->Drop(kId);
  EXPECT_FALSE(containers->IsComing({7, 1}, now));
  EXPECT_EQ(held.size(), 1u);
}

}  // namespace
}  // namespace gpuman::daemon
