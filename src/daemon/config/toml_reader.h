// Takes values out of a TOML table by key. Checks each value, reports where a value is wrong, and knows which
// keys were not taken.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "base/units.h"
#include "daemon/config/config.h"

namespace gpuman::daemon {

inline constexpr base::Millis kDay{86'400'000};

enum class EmptyText { kRefused, kAllowed };

// Not thread-safe; borrows the table. Keys are dotted paths; reading one marks it as known.
class TomlReader {
 public:
  TomlReader(const toml::table& root, std::string file) : root_(root), file_(std::move(file)) {}

  // Each leaves `target` as it is if the key is absent or its value is wrong.
  void Text(const char* key, std::string& target, EmptyText empty = EmptyText::kRefused);
  void Path(const char* key, std::filesystem::path& target);
  void Flag(const char* key, bool& target);
  void Count(const char* key, std::uint32_t& target, std::int64_t least, std::int64_t most);
  void Time(const char* key, base::Millis& target, base::Millis least, base::Millis most);
  // A time, or "never", which clears.
  void TimeOrNever(const char* key, std::optional<base::Millis>& target, base::Millis least,
                   base::Millis most);
  // A table from any name to such.
  void TimesOrNever(const char* key, std::map<std::string, std::optional<base::Millis>>& target,
                    base::Millis least, base::Millis most);
  void Size(const char* key, base::Bytes& target, base::Bytes least, base::Bytes most);
  // A size or a percentage; "none" clears.
  void Spec(const char* key, std::optional<base::SizeSpec>& target);
  void Names(const char* key, std::vector<std::string>& target);
  // A table from any name to a size.
  void Specs(const char* key, std::map<std::string, base::SizeSpec>& target);

  // The node at a dotted path, marked as known; nullptr where there is none.
  const toml::node* Take(std::string_view key);
  void Problem(const toml::node* node, std::string_view key, std::string message);

  // Reports each key in the file that was not taken, with the nearest key that the user might have meant.
  void RefuseUnknown();

  const std::vector<std::string>& known() const { return known_; }
  std::vector<ConfigProblem> TakeProblems() { return std::move(problems_); }

 private:
  static base::Result<base::Millis> TimeIn(const toml::node& node, base::Millis least, base::Millis most);
  void TimeOrNeverIn(const toml::node& node, const std::string& key, std::optional<base::Millis>& target,
                     base::Millis least, base::Millis most);
  void RefuseUnknownIn(const toml::table& table, const std::string& prefix);
  std::string Nearest(const std::string& key) const;

  const toml::table& root_;
  std::string file_;
  std::vector<std::string> known_;
  std::set<const toml::node*> taken_;
  std::vector<ConfigProblem> problems_;
};

}  // namespace gpuman::daemon
