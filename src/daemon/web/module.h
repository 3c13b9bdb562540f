// The page for everybody (web.listen): the daemon gives the page of `gpuman web` to whoever of this machine
// has its link, and answers what the page asks. It shows, and changes nothing: no request over TCP has
// another right.
#pragma once

#include <memory>
#include <string>

#include "daemon/core/core.h"
#include "daemon/core/module.h"
#include "daemon/http/server.h"
#include "web/request_check.h"

namespace gpuman::daemon {

class WebModule final : public Module {
 public:
  explicit WebModule(Core& core) : core_(core) {}

  Core& core() { return core_; }
  api::WebPageView View() const;

  void Restore(jobs::StoreContents& contents) override;
  void AddRoutes(http::Router& router) override;
  bool Stop() override;

 private:
  void Serve(const http::Router& router);
  void Answer(const http::ExchangePtr& exchange, const http::Router& router) const;

  Core& core_;
  web::AccessPolicy owner_;               // everybody; the secret is empty where nothing is served
  std::unique_ptr<http::Server> server_;  // nullptr: not configured, or somebody else has the port
};

}  // namespace gpuman::daemon
