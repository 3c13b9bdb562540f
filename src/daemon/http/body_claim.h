// What the body of one request takes of the server's budgets, from the request's header until the last owner
// of the body lets go of it. The client may be gone by then: a handler may still have the body.
//
// Lives on the server's event loop; not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/http/body_budget.h"
#include "daemon/http/large_bodies.h"

namespace gpuman::daemon::http {

struct BodyBudgets {
  LargeBodies large;
  BodyBudget bodies;
};

class BodyClaim {
 public:
  // nullptr: there is no room now; the user has to try again later. A claim may outlive the server, so it
  // shares the budgets.
  static std::unique_ptr<BodyClaim> Take(const std::shared_ptr<BodyBudgets>& budgets, uid_t user,
                                         std::size_t bytes) {
    if (!budgets->bodies.Take(user, bytes)) return nullptr;
    return std::unique_ptr<BodyClaim>(new BodyClaim(budgets, user, bytes));
  }
  static std::unique_ptr<BodyClaim> TakeLarge(const std::shared_ptr<BodyBudgets>& budgets, uid_t user,
                                              bool goes_first) {
    if (!budgets->large.Take(user, goes_first)) return nullptr;
    return std::unique_ptr<BodyClaim>(new BodyClaim(budgets, user, std::nullopt));
  }
  ~BodyClaim() { bytes_ ? budgets_->bodies.Give(user_, *bytes_) : budgets_->large.Give(user_); }
  BodyClaim(const BodyClaim&) = delete;
  BodyClaim& operator=(const BodyClaim&) = delete;

 private:
  BodyClaim(std::shared_ptr<BodyBudgets> budgets, uid_t user, std::optional<std::size_t> bytes)
      : budgets_(std::move(budgets)), user_(user), bytes_(bytes) {}

  const std::shared_ptr<BodyBudgets> budgets_;
  const uid_t user_;
  const std::optional<std::size_t> bytes_;  // nullopt: a large body
};

}  // namespace gpuman::daemon::http
