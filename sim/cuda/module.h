// The objects behind CUmodule and CUfunction.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "sim/cuda/context.h"
#include "sim/cuda/ptx_program.h"

namespace gpuman::sim::cuda {

class Driver;
struct Function;

// A module is loaded into one context.
struct Module {
  std::shared_ptr<Context> context;
  ptx::Program program;
  std::vector<std::uint64_t> globals;  // address of each variable of the program
  std::vector<std::shared_ptr<Function>> functions;
};

struct Function {
  Module* module = nullptr;  // owns this
  // Keeps the code while launches of it are queued, even after the module is unloaded.
  std::shared_ptr<const ptx::Kernel> kernel;
  std::atomic<int> dynamic_shared_limit{49152};
  std::atomic<int> shared_carveout{-1};
};

// Loads an image: PTX text. `log` receives the reason of a failure.
CUresult LoadModule(Driver& driver, const std::shared_ptr<Context>& context, const void* image,
                    std::shared_ptr<Module>& module, std::string& log);
CUresult ReadImageFile(const char* path, std::string& image);
// Removes the module and its functions from the driver's tables and frees its variables.
void UnloadModule(Driver& driver, const std::shared_ptr<Module>& module);

}  // namespace gpuman::sim::cuda
