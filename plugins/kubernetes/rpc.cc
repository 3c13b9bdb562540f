#include "plugins/kubernetes/rpc.h"

#include <utility>

#include "base/parse_number.h"

namespace gpuman::kubernetes {
namespace {

constexpr std::size_t kPrefix = 5;  // a flag for compression, four bytes of length

std::uint32_t LengthOf(std::string_view prefix) {
  std::uint32_t length = 0;
  for (std::size_t i = 1; i < kPrefix; ++i) length = length << 8 | static_cast<unsigned char>(prefix[i]);
  return length;
}

}  // namespace

RpcStatus StatusOf(const base::Error& error) {
  switch (error.code) {
    case base::ErrorCode::kInvalidArgument:
      return {RpcCode::kInvalidArgument, error.message};
    case base::ErrorCode::kNotFound:
      return {RpcCode::kNotFound, error.message};
    case base::ErrorCode::kConflict:
    case base::ErrorCode::kUnsatisfiable:
      return {RpcCode::kFailedPrecondition, error.message};
    case base::ErrorCode::kUnavailable:
      return {RpcCode::kUnavailable, error.message};
    default:
      return {RpcCode::kInternal, error.message};
  }
}

std::string Frame(std::string_view message) {
  std::string frame(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(message.size() >> shift & 0xff);
  return frame.append(message);
}

std::optional<RpcStatus> RpcMessageReader::Feed(std::string_view bytes) {
  if (refused_) return refused_;
  pending_.append(bytes);
  std::string_view rest = pending_;
  while (rest.size() >= kPrefix) {
    const auto length = LengthOf(rest);
    if (rest[0] != 0)
      refused_ = {RpcCode::kUnimplemented, "compressed messages are not understood"};
    else if (length > kLongestMessage)
      refused_ = {RpcCode::kResourceExhausted,
                  "a message of " + std::to_string(length) + " bytes is too long"};
    if (refused_) {
      pending_.clear();
      return refused_;
    }
    if (rest.size() - kPrefix < length) break;
    whole_.emplace_back(rest.substr(kPrefix, length));
    rest.remove_prefix(kPrefix + length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return std::nullopt;
}

std::string EncodeStatusMessage(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '%')
      encoded += c;
    else
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return encoded;
}

std::string DecodeStatusMessage(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = text[i] == '%' && i + 2 < text.size()
                          ? base::ParseNumber<unsigned char>(text.substr(i + 1, 2), 16)
                          : std::nullopt;
    if (byte) {
      decoded += static_cast<char>(*byte);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace gpuman::kubernetes
