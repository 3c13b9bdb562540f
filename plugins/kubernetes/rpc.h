// The gRPC protocol over HTTP/2, as far as kubelet and its plugins use it: messages as plain bytes.
//
// The plugin does not use the gRPC library, because that library wakes up twice a second in an idle server
// (docs/kubernetes.md). Pure functions and values; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::kubernetes {

// The codes of gRPC that the plugin uses.
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

// The longest message that is accepted; kubelet's own limit is 4 MiB.
inline constexpr std::size_t kLongestMessage = 4u << 20;

// A message behind the five bytes of gRPC's prefix.
std::string Frame(std::string_view message);

// Splits a stream into such messages. After an error it refuses all further bytes.
class RpcMessageReader {
 public:
  // kUnimplemented: the message is compressed. kResourceExhausted: it is longer than kLongestMessage.
  std::optional<RpcStatus> Feed(std::string_view bytes);
  // The messages that are complete by now.
  std::vector<std::string> Take() { return std::exchange(whole_, {}); }
  bool in_the_middle() const { return !pending_.empty(); }

 private:
  std::string pending_;
  std::vector<std::string> whole_;
  std::optional<RpcStatus> refused_;
};

// The text of a grpc-message header: each byte that is not printable ASCII, and '%', becomes %XX. Decoding
// keeps wrong codes as they are.
std::string EncodeStatusMessage(std::string_view text);
std::string DecodeStatusMessage(std::string_view text);

}  // namespace gpuman::kubernetes
