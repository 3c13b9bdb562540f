#include "daemon/containers/names.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_dir.h"

namespace gpuman::daemon {
namespace {

const std::string kId(64, 'a');
const std::string kUid = "2c48913c-b29f-11e7-9350-020968147796";

TEST(ContainerNames, AreThoseOfItsLog) {
  EXPECT_EQ(NameOfLog("train-0_team.a_main-x-" + kId + ".log", kId),
            (ContainerName{{"team.a", "train-0"}, "main-x"}));
  for (const std::string& file :
       {"train-0_team_main-" + std::string(64, 'b') + ".log", "train-0_main-" + kId + ".log",
        "a_b_c_d-" + kId + ".log", "__-" + kId + ".log", "a__c-" + kId + ".log", kId + ".log", std::string()})
    EXPECT_FALSE(NameOfLog(file, kId)) << file;
  EXPECT_FALSE(NameOfLog("a_b_c-.log", ""));
}

TEST(ContainerNames, OfAPodAreThoseOfItsDirectory) {
  EXPECT_EQ(NameOfPodDirectory("team.a_train-0_" + kUid, kUid), (PodName{"team.a", "train-0"}));
  for (const std::string& name : {"team_train_0_" + kUid, "team_" + kUid, "_train_" + kUid, "team__" + kUid,
                                  "team_train_x" + kUid, kUid})
    EXPECT_FALSE(NameOfPodDirectory(name, kUid)) << name;
  EXPECT_FALSE(NameOfPodDirectory("team_train_", ""));
}

TEST(ContainerNames, AreLookedUpInKubeletsFiles) {
  const base::TempDir dir;
  std::filesystem::create_directories(dir.path() / "pods" / ("team_train_" + kUid));
  std::filesystem::create_directories(dir.path() / "containers");
  std::ofstream(dir.path() / "containers" / ("other_team_main-" + std::string(64, 'b') + ".log")) << "";
  EXPECT_EQ(FindPodName(dir.path(), kUid), (PodName{"team", "train"}));
  EXPECT_FALSE(FindContainerName(dir.path(), kId)) << "not yet";
  // A link whose target the daemon may not see.
  std::filesystem::create_symlink("/nowhere/0.log",
                                  dir.path() / "containers" / ("train_team_main-" + kId + ".log"));
  EXPECT_EQ(FindContainerName(dir.path(), kId), (ContainerName{{"team", "train"}, "main"}));
  EXPECT_FALSE(FindPodName(dir.path(), ""));
  EXPECT_FALSE(FindContainerName(dir.path() / "none", kId));
}

}  // namespace
}  // namespace gpuman::daemon
