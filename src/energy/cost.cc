#include "energy/cost.h"

#include <fmt/format.h>

namespace gpuman::energy {
namespace {

constexpr double kJoulesOfKwh = 3.6e6;

}  // namespace

std::optional<double> CostOf(const Prices& prices, double gpu_hours, std::optional<double> joules) {
  std::optional<double> cost;
  if (prices.gpu_hour) cost = *prices.gpu_hour * gpu_hours;
  if (prices.kwh && joules) cost = cost.value_or(0) + *prices.kwh * *joules / kJoulesOfKwh;
  return cost;
}

std::string FormatEnergy(double joules) {
  const double kwh = joules / kJoulesOfKwh;
  return kwh >= 0.1 ? fmt::format("{:.2f} kWh", kwh) : fmt::format("{:.2f} Wh", kwh * 1000);
}

std::optional<std::string> UseText(std::optional<double> joules, std::optional<double> cost,
                                   const Prices& prices, bool going_on) {
  if (!joules && !cost) return std::nullopt;
  const auto money = [&] { return fmt::format("{:.2f} {}", *cost, prices.currency); };
  std::string text = joules ? FormatEnergy(*joules) : fmt::format("GPU time for {}", money());
  if (joules && cost) text += fmt::format(", {}{}", money(), prices.gpu_hour ? " with its GPU time" : "");
  return going_on ? fmt::format("It has used {} so far.", text) : fmt::format("It used {}.", text);
}

}  // namespace gpuman::energy
