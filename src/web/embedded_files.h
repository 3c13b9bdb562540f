// The files that the build puts into the program (cmake/EmbedFiles.cmake writes the source).
#pragma once

#include <string_view>
#include <vector>

namespace gpuman::web {

struct EmbeddedFile {
  std::string_view name;   // without folders
  std::string_view bytes;  // compressed by gzip; of the program's own memory
};

const std::vector<EmbeddedFile>& EmbeddedFiles();

}  // namespace gpuman::web
