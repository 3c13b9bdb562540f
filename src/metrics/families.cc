#include "metrics/families.h"

namespace gpuman::metrics {

std::string_view ToString(Type type) {
  switch (type) {
    case Type::kGauge:
      return "gauge";
    case Type::kCounter:
      return "counter";
    case Type::kHistogram:
      return "histogram";
    case Type::kUntyped:
      return "untyped";
  }
  return "untyped";
}

}  // namespace gpuman::metrics
