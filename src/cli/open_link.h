// Opens a link that has a secret in it in this user's browser.
//
// Everybody can read the command line of a process (/proc). So the browser is given the path of a file that
// only this user can read, and the file leads on to the link.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "base/paths.h"
#include "base/result.h"

namespace gpuman::cli {

// The program that opens a file in the browser; nullopt: it is not in PATH.
std::optional<std::filesystem::path> BrowserOpener(const base::EnvironmentLookup& environment);

// Why this session opens no browser, as a clause; nullopt: it can. `opener`: as BrowserOpener returns it.
std::optional<std::string> WhyNoBrowser(const base::EnvironmentLookup& environment,
                                        const std::optional<std::filesystem::path>& opener);

// A page of HTML that leads on to the link, which has no characters that mean something in HTML.
std::string PageThatLeadsTo(std::string_view link);

// The file, and the program that opens it. The file is there as long as the object: a browser may read it
// late. Not thread-safe.
class OpenedLink {
 public:
  // Writes the file into `folder` and starts `opener`. If that ends with a failure while the object exists, a
  // thread calls `failed` with a sentence.
  static base::Result<std::unique_ptr<OpenedLink>> Open(const std::filesystem::path& opener,
                                                        const std::filesystem::path& folder,
                                                        std::string_view link,
                                                        std::function<void(const std::string&)> failed);
  // Removes the file. The browser goes on.
  ~OpenedLink();
  OpenedLink(const OpenedLink&) = delete;
  OpenedLink& operator=(const OpenedLink&) = delete;

 private:
  explicit OpenedLink(std::filesystem::path file) : file_(std::move(file)) {}
  base::Result<> Start(const std::filesystem::path& opener, std::function<void(const std::string&)> failed);

  std::filesystem::path file_;
  base::Fd stop_;
  std::thread watch_;  // waits for the end of the program
};

}  // namespace gpuman::cli
