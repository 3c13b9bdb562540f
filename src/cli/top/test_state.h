// Made-up machines for the tests of `gpuman top`.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/top/frame.h"
#include "cli/top/update.h"

namespace gpuman::cli::top {

inline api::ProcessView TestProcess(int pid, const std::string& user, std::uint64_t mebibytes,
                                    std::optional<std::int64_t> job = {}) {
  api::ProcessView process;
  process.pid = pid;
  process.user = user;
  process.name = "python";
  process.memory = base::MiB(mebibytes);
  process.job = job;
  process.command = {"python", "--pid", std::to_string(pid)};
  return process;
}

inline api::GpuView TestGpu(int index) {
  api::GpuView gpu;
  gpu.index = index;
  gpu.uuid = fmt::format("GPU-{}", index);
  gpu.name = "NVIDIA H200";
  gpu.memory = api::MemoryView{base::GiB(140), base::GiB(70), base::GiB(70), base::Bytes{}};
  gpu.utilization_gpu = 42;
  gpu.temperature_c = 61;
  gpu.power_w = 312.4;
  gpu.power_limit_w = 700;
  return gpu;
}

inline api::JobView TestJob(std::int64_t id, const std::string& tag, const std::string& user,
                            spec::JobState state = spec::JobState::kRunning, int gpu = 0) {
  api::JobView job;
  job.id = id;
  job.tag = tag;
  job.user = user;
  job.state = state;
  job.gpus = {fmt::format("GPU-{}", gpu)};
  job.command = {"python", tag + ".py"};
  job.memory.used = base::GiB(static_cast<std::uint64_t>(id % 100));
  job.memory.limit = base::GiB(100);
  job.submitted_at = base::WallTime(std::chrono::seconds(1000));
  if (!spec::IsWaiting(state)) job.started_at = base::WallTime(std::chrono::seconds(1000 + id));
  if (spec::IsEnded(state)) job.ended_at = base::WallTime(std::chrono::seconds(3000 + id));
  return job;
}

// Two GPUs; train (1) of ann with two processes on GPU 0, bert (2) of bob on GPU 1, over (3), which has
// ended, and a process of no job.
inline Snapshot TestMachine() {
  Snapshot machine;
  machine.at = base::WallTime(std::chrono::seconds(5000));
  auto& status = machine.status;
  status.gpus = {TestGpu(0), TestGpu(1)};
  status.jobs = {TestJob(1, "train", "ann"), TestJob(2, "bert", "bob", spec::JobState::kRunning, 1),
                 TestJob(3, "over", "ann", spec::JobState::kFailed)};
  status.gpus[0].processes = {TestProcess(11, "ann", 300, 1), TestProcess(12, "ann", 724, 1)};
  status.gpus[1].processes = {TestProcess(21, "bob", 2048, 2), TestProcess(99, "eve", 100)};
  return machine;
}

inline State TestState(Size size = {100, 30}, Snapshot machine = TestMachine()) {
  State state;
  state.size = size;
  Update(state, StatusCame{std::move(machine)});
  return state;
}

inline std::vector<Effect> Press(State& state, const std::string& keys) {
  std::vector<Effect> all;
  for (const char key : keys)
    for (auto& effect : Update(state, Key{Key::Code::kCharacter, std::string(1, key)}))
      all.push_back(std::move(effect));
  return all;
}
inline std::vector<Effect> Press(State& state, Key::Code code) { return Update(state, Key{code}); }

inline std::vector<std::string> Texts(const State& state) {
  std::vector<std::string> texts;
  for (const auto& line : Draw(state).lines) texts.push_back(line.text());
  return texts;
}

inline std::string Screenful(const State& state) {
  std::string all;
  for (const auto& text : Texts(state)) all += text + "\n";
  return all;
}

}  // namespace gpuman::cli::top
