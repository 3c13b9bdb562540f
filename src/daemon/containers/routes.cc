// The table of what containers of Kubernetes were given.
#include "daemon/containers/module.h"
#include "daemon/core/requests.h"

namespace gpuman::daemon {
namespace {

void ShowContainers(ContainersModule& containers, const Call<api::NoBody, api::ContainersView>& call) {
  call.SendAside(containers.core(), containers.View());
}

void SetContainers(ContainersModule& containers, const Call<api::ContainerTable, api::ContainersView>& call) {
  containers.SetTable(call.body().containers);
  containers.core().SampleNow();
  call.SendAside(containers.core(), containers.View());
}

}  // namespace

void ContainersModule::AddRoutes(http::Router& router) {
  const auto serve = RouteRegistrar(*this, router);
  serve(api::routes::kContainers, ShowContainers);
  serve(api::routes::kSetContainers, SetContainers);
}

}  // namespace gpuman::daemon
