#include "base/result.h"

#include <array>
#include <cerrno>
#include <system_error>

namespace gpuman::base {
namespace {

constexpr std::array<std::pair<ErrorCode, std::string_view>, 12> kWords{{
    {ErrorCode::kInvalidArgument, "invalid_argument"},
    {ErrorCode::kNotFound, "not_found"},
    {ErrorCode::kAlreadyExists, "already_exists"},
    {ErrorCode::kPermissionDenied, "permission_denied"},
    {ErrorCode::kUnsatisfiable, "unsatisfiable"},
    {ErrorCode::kConflict, "conflict"},
    {ErrorCode::kUnavailable, "unavailable"},
    {ErrorCode::kNotSupported, "not_supported"},
    {ErrorCode::kTimeout, "timeout"},
    {ErrorCode::kCorrupt, "corrupt"},
    {ErrorCode::kExhausted, "exhausted"},
    {ErrorCode::kInternal, "internal"},
}};

ErrorCode CodeOf(int number) {
  switch (number) {
    case ENOENT:
    case ESRCH:
    case ENODEV:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return ErrorCode::kInvalidArgument;
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return ErrorCode::kExhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return ErrorCode::kUnavailable;
    case ETIMEDOUT:
      return ErrorCode::kTimeout;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::kNotSupported;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

std::string_view ToString(ErrorCode code) {
  for (const auto& [c, word] : kWords)
    if (c == code) return word;
  return "internal";
}

ErrorCode ErrorCodeFromString(std::string_view word) {
  for (const auto& [code, w] : kWords)
    if (w == word) return code;
  return ErrorCode::kInternal;
}

Error Error::In(std::string_view doing) && {
  message.insert(0, std::string(doing) + ": ");
  return std::move(*this);
}

Error SystemError(int number, std::string_view doing) {
  return Error{CodeOf(number), std::string(doing) + ": " + std::generic_category().message(number), {}};
}

}  // namespace gpuman::base
