#include "cli/compat/slurm/output_file_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/untrusted_file.h"

namespace gpuman::cli::slurm {
namespace {

using base::Result;

Result<std::uint64_t> SizeOf(const base::Fd& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return base::FailSystem(errno, path);
  return static_cast<std::uint64_t>(info.st_size);
}

// Somebody else may have named the path, and root may read it. Not ok: nothing is there, or no file with an
// output, as /dev/null is none.
Result<base::Fd> OpenOutput(const std::string& path) {
  using base::ErrorCode;
  auto file = base::OpenUntrustedFile(path);
  if (!file &&
      (file.error().code == ErrorCode::kInvalidArgument || file.error().code == ErrorCode::kNotFound))
    return base::Fd();
  return file;
}

// Reads bytes at an offset; empty at the end.
Result<std::string_view> ReadAt(const base::Fd& file, std::uint64_t at, std::span<char> buffer,
                                const std::string& path) {
  for (;;) {
    const auto n = ::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (n >= 0) return std::string_view(buffer.data(), static_cast<std::size_t>(n));
    if (errno != EINTR) return base::FailSystem(errno, path);
  }
}

}  // namespace

bool OutputFileReader::exists() const {
  const auto file = base::OpenUntrustedFile(path_);
  return file || file.error().code != base::ErrorCode::kNotFound;
}

Result<> OutputFileReader::Read(const Take& take) {
  GPUMAN_ASSIGN(const base::Fd file, OpenOutput(path_));
  if (!file.ok()) return {};
  GPUMAN_ASSIGN(const auto size, SizeOf(file, path_));
  if (size < at_) at_ = 0;
  std::array<char, 65536> buffer;
  for (;;) {
    GPUMAN_ASSIGN(const auto piece, ReadAt(file, at_, buffer, path_));
    if (piece.empty()) return {};
    at_ += piece.size();
    if (!take(piece)) return {};
  }
}

Result<> OutputFileReader::SkipTo(std::uint64_t lines) {
  GPUMAN_ASSIGN(const base::Fd file, OpenOutput(path_));
  if (!file.ok()) return {};
  GPUMAN_ASSIGN(const auto size, SizeOf(file, path_));
  std::array<char, 65536> buffer;
  std::uint64_t left = lines;
  for (std::uint64_t end = size; end > 0;) {
    const auto begin = end - std::min<std::uint64_t>(end, buffer.size());
    GPUMAN_ASSIGN(const auto piece, ReadAt(file, begin, std::span(buffer).first(end - begin), path_));
    for (std::size_t i = piece.size(); i > 0; --i) {
      const bool is_last = begin + i == size;  // the line end at the end of the file begins no line
      if (piece[i - 1] != '\n' || (is_last && lines > 0)) continue;
      if (left <= 1) {
        at_ = lines == 0 ? size : begin + i;
        return {};
      }
      --left;
    }
    end = begin;
  }
  at_ = lines == 0 ? size : 0;
  return {};
}

}  // namespace gpuman::cli::slurm
