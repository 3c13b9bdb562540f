// The parts of a daemon that a Checkpointer needs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>

#include "base/test_temp_dir.h"
#include "driver/cuda.h"
#include "driver/nvml.h"
#include "held_process.h"
#include "suspend/checkpointer.h"

namespace gpuman::suspend {

class CheckpointerFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* build = std::getenv("GPUMAN_BUILD_DIR");
    ASSERT_NE(build, nullptr) << "set by ctest";
    options.program.path = std::filesystem::path(build) / "bin" / "gpuman-mover";
    options.program.locks = dir.path();
    auto loaded = driver::Nvml::Load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    nvml = std::move(*loaded);
  }
  void TearDown() override {
    checkpointer.reset();
    workers.join();
  }

  Checkpointer& Get() {
    if (!checkpointer) checkpointer = std::make_unique<Checkpointer>(loop, workers, options);
    return *checkpointer;
  }

  // Runs the loop until `done` holds.
  [[nodiscard]] bool Until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      loop.restart();
      loop.run_one_for(std::chrono::milliseconds(50));
    }
    return done();
  }

  struct Asked {
    std::optional<MoverAnswer> answer;
  };
  std::shared_ptr<Asked> Post(MoverRequest request) {
    auto asked = std::make_shared<Asked>();
    Get().Ask(user, std::move(request), [asked](const MoverAnswer& answer) {
      EXPECT_FALSE(asked->answer) << "answered twice";
      asked->answer = answer;
    });
    return asked;
  }
  MoverAnswer Wait(const std::shared_ptr<Asked>& asked) {
    EXPECT_TRUE(Until([&] { return asked->answer.has_value(); }));
    return asked->answer.value_or(MoverAnswer{.message = "no answer"});
  }
  MoverAnswer Ask(Verb verb, base::ProcessId process = {}, std::vector<GpuMove> gpus = {},
                  base::Millis lock = base::Millis(20'000)) {
    return Wait(Post({.verb = verb, .process = process, .lock_timeout = lock, .gpus = std::move(gpus)}));
  }

  driver::NvmlDevice Device(unsigned index) { return nvml->DeviceAt(index).value(); }
  std::string Uuid(unsigned index) { return nvml->Info(Device(index))->uuid; }

  base::TempDir dir;
  boost::asio::io_context loop;
  boost::asio::thread_pool workers{2};
  CheckpointerOptions options;
  MoverUser user{::geteuid(), ::getegid(), {}};
  std::unique_ptr<Checkpointer> checkpointer;
  std::unique_ptr<driver::Nvml> nvml;
};

}  // namespace gpuman::suspend
