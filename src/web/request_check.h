// Decides whether a request for the page, or of the page, is answered: by the server of `gpuman web`, and by
// the daemon where it serves a page for everybody. Pure.
//
// The server listens on a port of the loopback device, which every program of this machine can reach, and
// every page that the user's browser shows. What keeps them out:
//
//   - the secret of the link. The page sends it as a bearer token, and no cookie: browsers send cookies to
//     all ports of a host, so to servers of other users as well.
//   - the user at the other end of the connection, where the page is one user's and the kernel tells it
//   - the name in Host, against names of other hosts that are made to mean this address (DNS rebinding)
//   - Origin and Sec-Fetch-Site, against pages of other origins
//
// The files of the page hold nothing of anybody's, so they need no secret.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace gpuman::web {

// What a request says about its sender. An empty text: the request has no such header.
struct RequestSource {
  std::optional<uid_t> user;  // at the other end of the connection; nullopt: the kernel does not tell
  std::string_view host, origin, fetch_site, authorization;
};

// Says which users may ask.
struct AccessPolicy {
  std::optional<uid_t> user;  // nullopt: everybody who has the secret
  std::string secret;
};

// Why the server does not answer.
struct Refusal {
  int status = 0;       // of HTTP
  std::string message;  // what is wrong
  std::string hint;     // what to do; may be empty
};

// Whether the kernel says that this is another user's connection. A connection of root is never a stranger's:
// root may do everything anyway.
bool IsStranger(std::optional<uid_t> user, const AccessPolicy& owner);

// For every request.
std::optional<Refusal> RefusalOf(const RequestSource& sender, const AccessPolicy& owner);
// For a request that is passed on to the daemon; it includes RefusalOf.
std::optional<Refusal> RefusalOfCall(const RequestSource& sender, const AccessPolicy& owner);

// Whether both texts are the same. The time that it takes tells nothing of where they differ.
bool SameSecret(std::string_view one, std::string_view other);

}  // namespace gpuman::web
