// A directory for one test; its destructor removes it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpuman::base {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gpuman-XXXXXX").string();
    if (const char* made = ::mkdtemp(pattern.data())) path_ = made;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gpuman::base
