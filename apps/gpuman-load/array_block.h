// CUDA arrays as a block: their memory has no addresses, so kernels reach it through the session's window of
// plain device memory.
#pragma once

#include <memory>

#include "allocators.h"

namespace gpuman::load {

// Allocates as many arrays as `size` needs.
base::Result<std::unique_ptr<Block>> AllocateArrays(Session& session, base::Bytes size);

}  // namespace gpuman::load
