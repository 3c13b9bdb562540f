// For the tests that compare our declarations with a vendor's header: facts by name, and a description of a
// function type that does not depend on the names of its types.
#pragma once

#include <map>
#include <string>
#include <type_traits>

namespace gpuman::driver::abi {

using Facts = std::map<std::string, std::string>;

// "e4" is an enumeration of four bytes, "i4" and "u4" are integers, "s32" is a structure of 32 bytes, "*"
// means pointer to, "c" means const.
template <typename T>
std::string Shape() {
  if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_void_v<Pointee> || std::is_function_v<Pointee>) {
      return "*?";
    } else if constexpr (std::is_class_v<Pointee> && !requires { sizeof(Pointee); }) {
      return "*opaque";
    } else {
      return "*" + Shape<Pointee>();
    }
  } else if constexpr (std::is_const_v<T>) {
    return "c" + Shape<std::remove_const_t<T>>();
  } else {
    const char* kind = std::is_enum_v<T>             ? "e"
                       : std::is_class_v<T>          ? "s"
                       : std::is_union_v<T>          ? "n"
                       : std::is_floating_point_v<T> ? "f"
                       : std::is_signed_v<T>         ? "i"
                                                     : "u";
    return kind + std::to_string(sizeof(T));
  }
}

template <typename T>
struct Signature;
template <typename Result, typename... Parameters>
struct Signature<Result(Parameters...)> {
  static std::string Text() {
    std::string text = Shape<Result>() + "(";
    ((text += Shape<Parameters>() + ","), ...);
    return text + ")";
  }
};

}  // namespace gpuman::driver::abi
