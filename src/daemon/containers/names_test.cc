#include "daemon/containers/names.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temp_dir.h"

namespace gpuman::daemon {
namespace {

const std::string kNamedId(64, 'a');
const std::string kPodUid = "2c48913c-b29f-11e7-9350-020968147796";

TEST(ContainerNames, AreThoseOfItsLog) {
  EXPECT_EQ(NameOfLog("train-0_team.a_main-x-" + kNamedId + ".log", kNamedId),
            (ContainerName{{"team.a", "train-0"}, "main-x"}));
  for (const std::string& file :
       {"train-0_team_main-" + std::string(64, 'b') + ".log", "train-0_main-" + kNamedId + ".log",
        "a_b_c_d-" + kNamedId + ".log", "__-" + kNamedId + ".log", "a__c-" + kNamedId + ".log",
        kNamedId + ".log", std::string()})
    EXPECT_FALSE(NameOfLog(file, kNamedId)) << file;
  EXPECT_FALSE(NameOfLog("a_b_c-.log", ""));
}

TEST(ContainerNames, OfAPodAreThoseOfItsDirectory) {
  EXPECT_EQ(NameOfPodDirectory("team.a_train-0_" + kPodUid, kPodUid), (PodName{"team.a", "train-0"}));
  for (const std::string& name : {"team_train_0_" + kPodUid, "team_" + kPodUid, "_train_" + kPodUid,
                                  "team__" + kPodUid, "team_train_x" + kPodUid, kPodUid})
    EXPECT_FALSE(NameOfPodDirectory(name, kPodUid)) << name;
  EXPECT_FALSE(NameOfPodDirectory("team_train_", ""));
}

TEST(ContainerNames, AreLookedUpInKubeletsFiles) {
  const base::TempDir dir;
  std::filesystem::create_directories(dir.path() / "pods" / ("team_train_" + kPodUid));
  std::filesystem::create_directories(dir.path() / "containers");
  std::ofstream(dir.path() / "containers" / ("other_team_main-" + std::string(64, 'b') + ".log")) << "";
  EXPECT_EQ(FindPodName(dir.path(), kPodUid), (PodName{"team", "train"}));
  EXPECT_FALSE(FindContainerName(dir.path(), kNamedId)) << "not yet";
  // A link whose target the daemon may not see.
  std::filesystem::create_symlink("/nowhere/0.log",
                                  dir.path() / "containers" / ("train_team_main-" + kNamedId + ".log"));
  EXPECT_EQ(FindContainerName(dir.path(), kNamedId), (ContainerName{{"team", "train"}, "main"}));
  EXPECT_FALSE(FindPodName(dir.path(), ""));
  EXPECT_FALSE(FindContainerName(dir.path() / "none", kNamedId));
}

}  // namespace
}  // namespace gpuman::daemon
