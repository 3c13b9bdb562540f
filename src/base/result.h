// Errors as values: what happened, to which thing, and what to do about it.
//
// A function that can fail returns Result<T>. An Error carries a code, which decides the exit status of the
// command line and the status of an HTTP answer, a message that reads as a sentence, and a hint: the next
// thing to try. Context is added on the way up with Error::In. Values; thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace gpuman::base {

enum class ErrorCode {
  kInvalidArgument,   // the request itself is wrong
  kNotFound,          // no such job, GPU, file
  kAlreadyExists,     // the name is taken
  kPermissionDenied,  // the caller may not
  kUnsatisfiable,     // can never be satisfied on this machine
  kConflict,          // not in this state
  kUnavailable,       // the other side (daemon, driver) cannot be reached
  kNotSupported,      // this device, driver or kernel cannot
  kTimeout,           // took longer than allowed
  kCorrupt,           // stored data cannot be trusted
  kExhausted,         // out of memory, disk, descriptors
  kInternal,          // a bug of gpuman or a failing system call
};

// The word used in JSON ("invalid_argument") and back; unknown words read as kInternal.
std::string_view ToString(ErrorCode code);
ErrorCode ErrorCodeFromString(std::string_view word);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint{};  // empty: nothing useful to say

  // Puts `doing` in front of the message: Error{"no such file"}.In("reading x") -> "reading x: no such file".
  Error In(std::string_view doing) &&;
};

template <typename T = void>
using Result = tl::expected<T, Error>;

// For `return Fail(...)` in a function that returns any Result.
inline tl::unexpected<Error> Fail(ErrorCode code, std::string message, std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}
inline tl::unexpected<Error> Fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

// The error for errno (`number`) after a failed call: the number decides the code, the message is
// "doing: reason".
Error SystemError(int number, std::string_view doing);
inline tl::unexpected<Error> FailSystem(int number, std::string_view doing) {
  return Fail(SystemError(number, doing));
}

}  // namespace gpuman::base

// Returns the error of `expr` from the enclosing function, or goes on.
#define GPUMAN_TRY(expr)                                             \
  do {                                                               \
    if (auto gpuman_try_result = (expr); !gpuman_try_result)         \
      return ::tl::unexpected(std::move(gpuman_try_result).error()); \
  } while (false)

#define GPUMAN_CONCAT_INNER(a, b) a##b
#define GPUMAN_CONCAT(a, b) GPUMAN_CONCAT_INNER(a, b)
#define GPUMAN_ASSIGN_IMPL(tmp, lhs, expr)                   \
  auto tmp = (expr);                                         \
  if (!tmp) return ::tl::unexpected(std::move(tmp).error()); \
  lhs = std::move(*tmp)
// `GPUMAN_ASSIGN(auto x, Compute());` binds the value, or returns the error.
#define GPUMAN_ASSIGN(lhs, expr) GPUMAN_ASSIGN_IMPL(GPUMAN_CONCAT(gpuman_result_, __LINE__), lhs, expr)
