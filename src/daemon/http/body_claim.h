// What the body of one request takes of the server's bounds, from the request's header until the last owner
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

struct BodyBounds {
  LargeBodies large;
  BodyBudget bodies;
};

class BodyClaim {
 public:
  // nullptr: there is no room now; the user has to try again later. A claim may outlive the server, so it
  // shares the bounds.
  static std::unique_ptr<BodyClaim> Take(const std::shared_ptr<BodyBounds>& bounds, uid_t user,
                                         std::size_t bytes) {
    if (!bounds->bodies.Take(user, bytes)) return nullptr;
    return std::unique_ptr<BodyClaim>(new BodyClaim(bounds, user, bytes));
  }
  static std::unique_ptr<BodyClaim> TakeLarge(const std::shared_ptr<BodyBounds>& bounds, uid_t user,
                                              bool goes_first) {
    if (!bounds->large.Take(user, goes_first)) return nullptr;
    return std::unique_ptr<BodyClaim>(new BodyClaim(bounds, user, std::nullopt));
  }
  ~BodyClaim() { bytes_ ? bounds_->bodies.Give(user_, *bytes_) : bounds_->large.Give(user_); }
  BodyClaim(const BodyClaim&) = delete;
  BodyClaim& operator=(const BodyClaim&) = delete;

 private:
  BodyClaim(std::shared_ptr<BodyBounds> bounds, uid_t user, std::optional<std::size_t> bytes)
      : bounds_(std::move(bounds)), user_(user), bytes_(bytes) {}

  const std::shared_ptr<BodyBounds> bounds_;
  const uid_t user_;
  const std::optional<std::size_t> bytes_;  // nullopt: a large body
};

}  // namespace gpuman::daemon::http
