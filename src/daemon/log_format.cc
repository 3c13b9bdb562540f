#include "daemon/log_format.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "base/printable.h"

namespace gpuman::daemon {
namespace {

std::string Escape(std::string_view as_is, std::optional<char32_t> code) {
  if (!code) return fmt::format("\\x{:02x}", static_cast<unsigned char>(as_is.front()));
  if (*code == '\n') return "\\n";
  if (*code == '\t') return "\\t";
  const auto number = static_cast<std::uint32_t>(*code);
  if (number < 0x80) return fmt::format("\\x{:02x}", number);
  return number < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

class Formatter final : public spdlog::formatter {
 public:
  explicit Formatter(std::string pattern) : pattern_(std::move(pattern)), lines_(pattern_) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    const std::string text = EscapedForLog(std::string_view(message.payload.data(), message.payload.size()));
    auto escaped = message;
    escaped.payload = text;
    lines_.format(escaped, to);
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<Formatter>(pattern_); }

 private:
  std::string pattern_;
  spdlog::pattern_formatter lines_;
};

}  // namespace

std::string EscapedForLog(std::string_view text) { return base::WithInstead(text, Escape); }

std::unique_ptr<spdlog::formatter> MakeLogFormatter(std::string pattern) {
  return std::make_unique<Formatter>(std::move(pattern));
}

}  // namespace gpuman::daemon
