#include "base/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace gpuman::base {
namespace {

constexpr std::size_t kMaxOpen = 16;          // directories, one in the other
constexpr std::size_t kLeast = 4 * kMaxOpen;  // a call with fewer might only go down
constexpr int kMaxListings = 20;              // of one directory in which files come again and again
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

class TreeRemover {
 public:
  TreeRemover(const std::filesystem::path& path, std::size_t most)
      : path_(path), left_(std::max(most, kLeast)) {}

  Result<bool> Run() {
    if (::unlink(path_.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return true;
    if (errno != EISDIR) return Failed("");
    if (::rmdir(path_.c_str()) == 0) return true;
    if (errno != ENOTEMPTY && errno != EEXIST) return Failed("");
    GPUMAN_TRY(Enter(AT_FDCWD, path_.string()));
    while (!open_.empty()) {
      if (left_ == 0) return false;
      GPUMAN_TRY(Step());
    }
    return gone_;
  }

 private:
  struct Folder {
    std::string name;  // in the folder above
    std::unique_ptr<DIR, CloseListing> listing;
    int listings = 1;
    int fd() const { return ::dirfd(listing.get()); }
  };

  tl::unexpected<Error> Failed(std::string_view name) const {
    return FailSystem(errno, fmt::format("removing {}{}{}", path_.string(), name.empty() ? "" : ", in it ",
                                         name.substr(0, 100)));
  }

  Result<> Enter(int above, const std::string& name) {
    Fd folder(::openat(above, name.c_str(), kFolder));
    // Somebody has removed it, or has put something else in its place: the next listing finds that.
    if (!folder.ok() && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return {};
    struct stat status {};
    if (!folder.ok() || ::fstat(folder.get(), &status) != 0) return Failed(name);
    if (open_.empty()) device_ = status.st_dev;
    if (status.st_dev != device_) {
      errno = EXDEV;
      return Failed(name);
    }
    DIR* const listing = ::fdopendir(folder.get());
    if (listing == nullptr) return Failed(name);
    (void)folder.Release();  // the listing has it
    open_.push_back({name, std::unique_ptr<DIR, CloseListing>(listing)});
    return {};
  }

  // One entry of the innermost folder, or the folder itself.
  Result<> Step() {
    Folder& folder = open_.back();
    errno = 0;
    const dirent* const entry = ::readdir(folder.listing.get());
    if (entry == nullptr) return errno != 0 ? Result<>(Failed(folder.name)) : Leave();
    const std::string name = entry->d_name;
    if (name == "." || name == "..") return {};
    --left_;
    if (entry->d_type != DT_DIR) {
      if (::unlinkat(folder.fd(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
      if (errno != EISDIR) return Failed(name);
    }
    if (::unlinkat(folder.fd(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTDIR)
      return {};
    if (errno != ENOTEMPTY && errno != EEXIST) return Failed(name);
    return open_.size() < kMaxOpen ? Enter(folder.fd(), name) : MoveUp(folder.fd(), name);
  }

  // Into the outermost folder, which is listed again then. So each level is gone through once, however deep
  // it was.
  Result<> MoveUp(int from, const std::string& name) {
    open_.front().listings = 0;
    std::random_device random;
    for (int i = 0; i < kMaxListings; ++i) {
      const auto fresh = fmt::format("deep-{:08x}{:08x}", random(), random());  // nobody else guesses it
      if (::renameat(from, name.c_str(), open_.front().fd(), fresh.c_str()) == 0 || errno == ENOENT)
        return {};
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) break;
    }
    return Failed(name);
  }

  Result<> Leave() {
    Folder& folder = open_.back();
    const int above = open_.size() > 1 ? open_[open_.size() - 2].fd() : AT_FDCWD;
    const auto path = open_.size() > 1 ? folder.name : path_.string();
    if (left_ > 0) --left_;
    errno = 0;
    if (::unlinkat(above, path.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTDIR) {
      gone_ = open_.size() == 1 && errno != ENOTDIR;
      open_.pop_back();
      return {};
    }
    if (errno != ENOTEMPTY && errno != EEXIST) return Failed(open_.size() > 1 ? folder.name : "");
    // Files have come, directories were moved up, or the listing has missed some.
    if (++folder.listings > kMaxListings) return Failed(open_.size() > 1 ? folder.name : "");
    ::rewinddir(folder.listing.get());
    return {};
  }

  const std::filesystem::path& path_;
  std::size_t left_;
  dev_t device_ = 0;
  bool gone_ = false;
  std::vector<Folder> open_;  // each in the one before
};

}  // namespace

Result<> RemoveTree(const std::filesystem::path& path) {
  for (int i = 0; i < kMaxListings; ++i) {
    GPUMAN_ASSIGN(const bool gone, RemoveSomeOfTree(path, SIZE_MAX));
    if (gone) return {};
  }
  return Fail(ErrorCode::kConflict,
              fmt::format("removing {}: something else is in its place again and again", path.string()));
}

Result<bool> RemoveSomeOfTree(const std::filesystem::path& path, std::size_t most) {
  return TreeRemover(path, most).Run();
}

}  // namespace gpuman::base
