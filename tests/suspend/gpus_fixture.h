// The GPUs of a mover, on the simulated driver, with the first one's context current.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "driver/cuda.h"
#include "mover/gpus.h"

namespace gpuman::mover {

class GpusTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = driver::CudaDriver::Load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    cuda.emplace(*loaded);
    ASSERT_TRUE(cuda->Init());
    gpus.emplace(*cuda);
    ASSERT_TRUE(gpus->Use(0));
  }

  std::optional<driver::CudaDriver> cuda;
  std::optional<Gpus> gpus;
};

}  // namespace gpuman::mover
