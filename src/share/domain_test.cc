#include "share/domain.h"

#include <gmock/gmock.h>

namespace gpuman::share {
namespace {

using testing::ElementsAre;

class ShareDomain : public testing::Test {
 protected:
  void Add(std::int64_t id, const std::vector<std::string>& gpus) {
    Tenant& tenant = tenants_[TenantId{id}];
    tenant.id = TenantId{id};
    for (const auto& gpu : gpus) tenant.parts[gpu];
  }
  // "name: ids", in order.
  std::vector<std::string> Domains() {
    std::vector<std::string> said;
    for (const Domain& domain : DomainsOf(tenants_)) {
      std::string& line = said.emplace_back(domain.name + ":");
      for (const Tenant* tenant : domain.tenants) line += " " + std::to_string(tenant->id.value);
    }
    return said;
  }
  std::map<TenantId, Tenant> tenants_;
};

TEST_F(ShareDomain, GpusThatNobodyJoinsAreApart) {
  Add(1, {"b"});
  Add(2, {"a"});
  Add(3, {"b"});
  EXPECT_THAT(Domains(), ElementsAre("a: 2", "b: 1 3"));
}

TEST_F(ShareDomain, JobOnTwoGpusJoinsTheDomainsOfBoth) {
  Add(1, {"a"});
  Add(2, {"c"});
  Add(3, {"c", "a"});
  Add(4, {"b"});
  EXPECT_THAT(Domains(), ElementsAre("a: 1 2 3", "b: 4"));
}

TEST_F(ShareDomain, AChainIsOneWhateverTheOrderOfItsLinks) {
  Add(1, {"c", "d"});
  Add(2, {"a", "b"});
  Add(3, {"b", "c"});
  EXPECT_THAT(Domains(), ElementsAre("a: 1 2 3"));
}

TEST_F(ShareDomain, DomainIsNamedByItsFirstGpuInAnyJoinOrder) {
  Add(1, {"b"});
  Add(2, {"a", "c"});
  Add(3, {"b", "c"});
  EXPECT_THAT(Domains(), ElementsAre("a: 1 2 3"));
}

TEST_F(ShareDomain, AJobOnNoGpuSharesNothing) {
  Add(1, {});
  Add(2, {"a"});
  Add(3, {});
  EXPECT_THAT(Domains(), ElementsAre(": 1 3", "a: 2"));
}

}  // namespace
}  // namespace gpuman::share
