// Attributes of functions, for cuFunc… and cuKernel….
#pragma once

#include "sim/cuda/module.h"

namespace gpuman::sim::cuda {

CUresult GetFunctionAttribute(const Function& function, CUfunction_attribute attribute, int& value);
CUresult SetFunctionAttribute(Function& function, CUfunction_attribute attribute, int value);

}  // namespace gpuman::sim::cuda
