// The gRPC protocol over HTTP/2, as far as kubelet and its plugins speak it: messages in plain bytes.
//
// Why not the gRPC library: it wakes up twice a second where nothing happens (docs/kubernetes.md). Pure
// functions and values; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::kubernetes {

// The codes of gRPC that are used here.
enum class RpcCode {
  kOk = 0,
  kUnknown = 2,
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14
};

struct RpcStatus {
  RpcCode code = RpcCode::kOk;
  std::string message;
  friend bool operator==(const RpcStatus&, const RpcStatus&) = default;
};
RpcStatus StatusOf(const base::Error& error);

// The longest message that is taken; kubelet's own limit is 4 MiB.
inline constexpr std::size_t kLongestMessage = 4u << 20;

// A message with gRPC's five bytes in front of it.
std::string Frame(std::string_view message);

// Takes a stream of such messages apart. Once refused, it stays so.
class FrameReader {
 public:
  // kUnimplemented: compressed. kResourceExhausted: longer than kLongestMessage.
  std::optional<RpcStatus> Feed(std::string_view bytes);
  // The messages that are whole by now.
  std::vector<std::string> Take() { return std::exchange(whole_, {}); }
  bool in_the_middle() const { return !pending_.empty(); }

 private:
  std::string pending_;
  std::vector<std::string> whole_;
  std::optional<RpcStatus> refused_;
};

// The text of a grpc-message header: everything but printable ASCII, and '%', as %XX; and back, leniently.
std::string EncodeStatusMessage(std::string_view text);
std::string DecodeStatusMessage(std::string_view text);

}  // namespace gpuman::kubernetes
