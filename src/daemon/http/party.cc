#include "daemon/http/party.h"

#include <functional>
#include <string_view>

#include "base/tcp_user.h"

namespace gpuman::daemon::http {
namespace {

constexpr Party kAddresses = Party{1} << 32;  // above all users

}  // namespace

Party PartyOfTcp(int connection) {
  const base::TcpSocketOwner other = base::UserAtOtherEnd(connection);
  if (other.state == base::TcpSocketOwner::State::kKnown) return PartyOf(other.user);
  sockaddr_storage there{};
  socklen_t size = sizeof there;
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&there), &size) != 0) return kAddresses;
  const auto words = base::SocketAddressOf(there).words;
  const std::string_view bytes(reinterpret_cast<const char*>(words.data()), sizeof words);
  return kAddresses | (std::hash<std::string_view>{}(bytes) & (kAddresses - 1));
}

}  // namespace gpuman::daemon::http
