// Faults of the simulated driver, which hold for all processes; see gpuman-sim.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace gpuman {

// `what`: the words of `gpuman-sim inject`; "clear" ends all of them.
inline void Inject(const std::string& what) {
  const std::string tool = std::string(std::getenv("GPUMAN_BUILD_DIR")) + "/bin/gpuman-sim";
  ASSERT_EQ(std::system((tool + " inject " + what).c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace gpuman
