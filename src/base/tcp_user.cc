#include "base/tcp_user.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace gpuman::base {

SocketAddress SocketAddressOf(const sockaddr_storage& from) {
  SocketAddress address;
  if (from.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &from, sizeof in);
    address = {AF_INET, in.sin_port, {in.sin_addr.s_addr}};
  } else if (from.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &from, sizeof in);
    address.family = AF_INET6;
    address.port = in.sin6_port;
    std::memcpy(address.words.data(), &in.sin6_addr, sizeof in.sin6_addr);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) address = {AF_INET, in.sin6_port, {address.words[3]}};
  }
  return address;
}

namespace {

struct DiagnosisRequest {
  nlmsghdr header;
  inet_diag_req_v2 asked;
};

DiagnosisRequest RequestFor(const SocketAddress& own, const SocketAddress& other) {
  DiagnosisRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.asked.sdiag_family = static_cast<__u8>(own.family);
  request.asked.sdiag_protocol = IPPROTO_TCP;
  request.asked.idiag_states = ~0u;
  request.asked.id.idiag_sport = own.port;
  request.asked.id.idiag_dport = other.port;
  std::memcpy(request.asked.id.idiag_src, own.words.data(), sizeof own.words);
  std::memcpy(request.asked.id.idiag_dst, other.words.data(), sizeof other.words);
  request.asked.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.asked.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

}  // namespace

TcpSocketOwner UserOfTcp(const sockaddr_storage& own, const sockaddr_storage& other) {
  using State = TcpSocketOwner::State;
  const auto request = RequestFor(SocketAddressOf(own), SocketAddressOf(other));
  if (request.asked.sdiag_family == AF_UNSPEC) return {};
  const Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.ok() || ::send(netlink.get(), &request, sizeof request, 0) != sizeof request) return {};
  // The kernel answers within the call.
  alignas(nlmsghdr) std::array<char, 8192> answer{};
  const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  nlmsghdr header{};
  if (got < static_cast<ssize_t>(sizeof header)) return {};
  std::memcpy(&header, answer.data(), sizeof header);
  if (nlmsgerr error{};
      header.nlmsg_type == NLMSG_ERROR && got >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof error))) {
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
    return {error.error == -ENOENT ? State::kNone : State::kUntold};
  }
  inet_diag_msg found{};
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof found)))
    return {};
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
  // A socket that was closed lives on in the kernel for a while, and shows root as its user.
  if (found.idiag_inode == 0) return {State::kNone};
  return {State::kKnown, found.idiag_uid};
}

TcpSocketOwner UserAtOtherEnd(int connection) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  if (::getsockname(connection, reinterpret_cast<sockaddr*>(&here), &here_size) != 0) return {};
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&there), &there_size) != 0)
    return {TcpSocketOwner::State::kNone};
  return UserOfTcp(there, here);
}

}  // namespace gpuman::base
