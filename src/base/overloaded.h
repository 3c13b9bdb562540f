// Makes one visitor of a function for each alternative of a variant.
#pragma once

namespace gpuman::base {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace gpuman::base
