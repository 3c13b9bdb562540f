#include "mig/record.h"

#include "base/json.h"

namespace gpuman::mig {
namespace {

constexpr base::json::JsonFormat kFormat{.strict = true};

}  // namespace

static base::json::Json Write(const base::json::JsonFormat&, const LayoutItem& item) {
  return FormatItem(item);
}

template <typename V, base::json::Of<WantedLayout> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  v.Required("enabled", x.enabled);
  if constexpr (V::kReads) {
    // Equal items may follow each other; ParseItems combines them.
    std::vector<std::string> words;
    v.Required("instances", words);
    auto items = ParseItems(words);
    v.Check(items.has_value(), "instances", items ? "" : items.error().message);
    if (items) x.items = std::move(*items);
  } else {
    v.Required("instances", x.items);
  }
}

std::string SerializeRecord(const WantedLayout& wanted) { return base::json::ToText(wanted, kFormat); }

base::Result<WantedLayout> ParseRecord(std::string_view text) {
  return base::json::FromText<WantedLayout>(text, kFormat, "the stored MIG layout of a GPU");
}

}  // namespace gpuman::mig
