// The object behind a CUlibrary: an image that is loaded into each context on first use there.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "sim/cuda/module.h"

namespace gpuman::sim::cuda {

// CUkernel is the address of one of these.
struct LibraryKernel {
  struct Library* library = nullptr;
  std::string name;
};

struct Library {
  std::string image;
  std::vector<std::unique_ptr<LibraryKernel>> kernels;
  std::mutex mutex;  // guards modules
  std::map<const Context*, std::shared_ptr<Module>> modules;
};

}  // namespace gpuman::sim::cuda
