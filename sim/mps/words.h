// The words of a command of protocol 3: `module verb [positional…] [--key=value…] [--flag…]`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuman::sim::mps {

// Between the words of a command on its way to the daemon.
inline constexpr char kWordEnd = '\x1f';

struct Words {
  std::string module, verb;
  std::vector<std::string> positional{};
  std::map<std::string, std::string> options{};  // a flag has an empty value

  static Words Of(std::string_view line);
  std::string At(std::size_t index) const { return index < positional.size() ? positional[index] : ""; }
  std::optional<std::string> Option(const std::string& key) const;
  // An option that is none of these; empty: there is none.
  std::string Unknown(const std::vector<std::string>& known) const;
};

// A table as `--format` wants it: for people, or with commas between cells, each with its head or without.
std::string Table(const Words& words, const std::vector<std::string>& columns,
                  const std::vector<std::vector<std::string>>& rows);

// The help of the program, of a module, or of a verb. `branch`: of the driver.
std::string Help(const std::string& module, const std::string& verb, unsigned branch);

// Lower-case letters, digits and underscores, up to 64.
bool IsName(const std::string& name);
// "8G", "512M", "1024K", "4096".
bool IsSize(const std::string& text);
// 1 to 100; nullopt: it is no such number.
std::optional<double> PercentageOf(const std::string& text);

}  // namespace gpuman::sim::mps
