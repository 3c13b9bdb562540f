#include "plugins/kubernetes/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ProblemOf(std::string_view text) {
  const auto config = ParseConfig(text, "f.toml");
  return config ? "no problem" : config.error().message;
}

TEST(KubeConfigTest, EachKindOfResourceIsRead) {
  const auto config = ParseConfig(R"(
[kubelet]
directory = "/k"
pod_resources = "/p.sock"
[gpumand]
socket = "/g.sock"
[container]
devices = ["cdi", "nodes"]
cdi_kind = "example.com/gpu"
required = true
preload = false
environment = { A = "b" }
[[container.mount]]
host = "/h"
container = "/c"
[[resource]]
name = "gpuman.io/gpu"
kind = "whole"
[[resource]]
name = "gpuman.io/gpumem-gib"
kind = "memory"
gpus = [0, "GPU-1"]
reserve = "2GiB"
[[resource]]
name = "gpuman.io/gpu-20gib"
kind = "slice"
gpus = ["2"]
size = "20GiB"
[[resource]]
name = "gpuman.io/shared"
kind = "shared"
gpus = ["3"]
replicas = 4
compute = "25%+"
priority = 200
[[resource]]
name = "gpuman.io/mig-1g.18gb"
kind = "mig"
profile = "1g.18gb"
)",
                                  "f.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kubelet, "/k");
  EXPECT_EQ(config->gpumand, "/g.sock");
  EXPECT_EQ(config->handing, (DeviceInjectionOptions{.environment = false, .cdi = true, .nodes = true}));
  EXPECT_EQ(config->cdi_kind, "example.com/gpu");
  EXPECT_THAT(config->environment, ElementsAre(std::pair("A", "b")));
  EXPECT_THAT(config->mounts, ElementsAre(MountRule{"/h", "/c", false}));
  ASSERT_EQ(config->resources.size(), 5u);
  EXPECT_EQ(config->resources[0].kind, ResourceKind::kWhole);
  EXPECT_THAT(config->resources[1].gpus, ElementsAre("0", "GPU-1"));
  EXPECT_EQ(config->resources[1].size, base::GiB(1));
  EXPECT_EQ(config->resources[1].reserve, base::GiB(2));
  EXPECT_EQ(config->resources[2].size, base::GiB(20));
  EXPECT_EQ(config->resources[3].replicas, 4u);
  EXPECT_EQ(config->resources[3].compute, (spec::ComputeShare{25, true}));
  EXPECT_EQ(config->resources[4].profile, "1g.18gb");
}

TEST(KubeConfigTest, AMistakeIsNamedWithLineAndKey) {
  const struct {
    const char* text;
    const char* problem;
  } cases[] = {
      {"", "f.toml:1: resource: there has to be at least one"},
      {"[[resource]]\nname = \"gpuman.io/gpu\"\nkind = \"hole\"",
       "f.toml:3: resource.kind: 'hole' is none of whole,"},
      {"[[resource]]\nname = \"gpu\"\nkind = \"whole\"", "f.toml:2: resource.name: 'gpu' is no name"},
      {"[[resource]]\nname = \"x.kubernetes.io/gpu\"\nkind = \"whole\"",
       "is no name of an extended resource"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"slice\"", "resource.size: is missing"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"slice\"\nsize = \"0\"", "f.toml:4: resource.size:"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"shared\"", "resource.replicas: is missing"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"shared\"\nreplicas = 1",
       "has to be a whole number from 2 to 1000"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"shared\"\nreplicas = 2\ncompute = \"0%\"",
       "f.toml:5: resource.compute: '0%' is no share"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"whole\"\ncompute = \"30%\"",
       "resource.compute: is not known"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"mig\"", "resource.profile: is missing"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"whole\"\nreplicas = 2", "resource.replicas: is not known"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"whole\"\ngpu = [1]", "did you mean gpus?"},
      {"[[resource]]\nname = \"a.b/c\"\nkind = \"whole\"\ngpus = []", "has to be a list that is not empty"},
      {"[kubelet]\ndirectory = \"k\"", "kubelet.directory: has to be an absolute path"},
      {"[container]\ndevices = [\"magic\"]", "'magic' is none of environment, cdi, nodes"},
      {"[[container.mount]]\nhost = \"/a\"", "host and container have to be there"},
      {"kubelet = 1", "kubelet: has to be a table"},
      {"[[resource]\n", "f.toml:1: "},
  };
  for (const auto& c : cases) EXPECT_THAT(ProblemOf(c.text), HasSubstr(c.problem)) << c.text;
}

TEST(KubeConfigTest, ResourcesThatOverlapAreRefused) {
  const std::string a = "[[resource]]\nname = \"a.b/a\"\nkind = \"whole\"\n";
  const std::string b = "[[resource]]\nname = \"a.b/b\"\nkind = \"memory\"\n";
  EXPECT_THAT(ProblemOf(a + b), HasSubstr("a.b/a and a.b/b both take what is left"));
  EXPECT_THAT(ProblemOf(a + "gpus = [0, 1]\n" + b + "gpus = [1]\n"),
              HasSubstr("GPU 1 is in a.b/a and in a.b/b"));
  EXPECT_THAT(ProblemOf(a + a), HasSubstr("a.b/a stands there twice"));
  EXPECT_EQ(ProblemOf(a + "gpus = [0]\n" + b), "no problem");
  const std::string mig = "[[resource]]\nname = \"a.b/m\"\nkind = \"mig\"\nprofile = \"1g.18gb\"\n";
  EXPECT_EQ(ProblemOf(a + mig), "no problem") << "a split GPU is not whole";
  EXPECT_THAT(ProblemOf(mig + "[[resource]]\nname = \"a.b/n\"\nkind = \"mig\"\nprofile = \"1g.18gb\"\n"),
              HasSubstr("both take what is left"));
}

}  // namespace
}  // namespace gpuman::kubernetes
