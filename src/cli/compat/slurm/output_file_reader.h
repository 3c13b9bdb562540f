// Reads the file that a job writes while it grows. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::cli::slurm {

class OutputFileReader {
 public:
  explicit OutputFileReader(std::string path) : path_(std::move(path)) {}

  // Passes to `take` what was written since the last call; nothing while there is no file. A file that became
  // shorter is read from its beginning: the job was restarted. `take` returns whether to continue.
  using Take = std::function<bool(std::string_view piece)>;
  base::Result<> Read(const Take& take);
  // The next Read begins with the last `lines` lines.
  base::Result<> SkipTo(std::uint64_t lines);
  bool exists() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::uint64_t at_ = 0;
};

}  // namespace gpuman::cli::slurm
