// Reads whole numbers from JSON and checks them. nlohmann's own get<int>() takes any number: it cuts a larger
// one to its low bits, and it converts one with a fraction or an exponent, which is undefined if the type
// cannot hold the result. So no other file of the product calls it for an integer; tools/check_layers.py
// holds this.
//
//   if (const auto pid = base::WholeNumber<pid_t>(json["pid"])) …         // a reader without exceptions
//   record.count = base::Checked<std::uint64_t>(json.at("count"));        // one that catches json::exception
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuman::base {

template <typename T>
concept Whole = std::integral<T> && !std::same_as<T, bool>;

// The number, if it is written as a whole number and T can hold it. `Json` is json or ordered_json.
template <Whole T, typename Json>
std::optional<T> WholeNumber(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto number = json.template get<std::uint64_t>();
    return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
  }
  if (!json.is_number_integer()) return std::nullopt;
  const auto number = json.template get<std::int64_t>();
  return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
}

// Only Checked() throws it. A reader catches it together with the other exceptions of the JSON library.
class NoSuchNumber : public nlohmann::json::exception {
 public:
  explicit NoSuchNumber(const std::string& what) : exception(kId, what.c_str()) {}

 private:
  static constexpr int kId = 406;  // the library's own id for a number out of range
};

template <typename T>
struct CheckedReader {
  static T Read(const nlohmann::json& json) { return json.get<T>(); }
};
template <Whole T>
struct CheckedReader<T> {
  static T Read(const nlohmann::json& json) {
    const auto number = WholeNumber<T>(json);
    if (!number)
      throw NoSuchNumber(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                         " is no whole number that can be held");
    return *number;
  }
};
template <Whole T>
struct CheckedReader<std::vector<T>> {
  static std::vector<T> Read(const nlohmann::json& json) {
    std::vector<T> numbers;
    for (const auto& each : json.get_ref<const nlohmann::json::array_t&>())
      numbers.push_back(CheckedReader<T>::Read(each));
    return numbers;
  }
};
template <Whole T>
struct CheckedReader<std::map<std::string, T>> {
  static std::map<std::string, T> Read(const nlohmann::json& json) {
    std::map<std::string, T> numbers;
    for (const auto& [name, each] : json.get_ref<const nlohmann::json::object_t&>())
      numbers.emplace(name, CheckedReader<T>::Read(each));
    return numbers;
  }
};

// Like json.get<T>(), but checks every whole number: T is a value, or a list or a map of numbers. Throws
// nlohmann::json::exception if `json` holds anything else.
template <typename T>
T Checked(const nlohmann::json& json) {
  return CheckedReader<T>::Read(json);
}

}  // namespace gpuman::base
