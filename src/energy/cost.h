// Computes what the use of GPUs costs, and puts it into words. Pure.
#pragma once

#include <optional>
#include <string>

namespace gpuman::energy {

struct Prices {
  std::optional<double> gpu_hour{};  // of one GPU
  std::optional<double> kwh{};
  std::string currency{};  // "EUR"
  bool IsSet() const { return gpu_hour || kwh; }
  friend bool operator==(const Prices&, const Prices&) = default;
};

// `joules`: nullopt where they were not measured: then only the time costs. nullopt: no price is set for what
// is known.
std::optional<double> CostOf(const Prices& prices, double gpu_hours, std::optional<double> joules);

// "0.41 kWh"; less than a tenth of that in Wh.
std::string FormatEnergy(double joules);
// "It used 0.41 kWh, 0.12 EUR with its GPU time." `going_on`: "It has used … so far." nullopt: nothing is
// known.
std::optional<std::string> UseText(std::optional<double> joules, std::optional<double> cost,
                                   const Prices& prices, bool going_on);

}  // namespace gpuman::energy
