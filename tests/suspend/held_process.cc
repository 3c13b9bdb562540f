#include "held_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/file.h"
#include "session.h"

namespace gpuman::suspend {
namespace {

constexpr std::uint64_t kSeed = 42;

base::Result<> Serve(int device, std::size_t bytes) {
  GPUMAN_ASSIGN(const auto cuda, driver::CudaDriver::Load());
  GPUMAN_ASSIGN(const auto session, load::Session::Open(cuda, device, /*checks=*/true));
  driver::abi::CUdeviceptr pointer = 0;
  GPUMAN_TRY(cuda.Invoke("cuMemAlloc", cuda.calls().cuMemAlloc_v2, &pointer, bytes));
  const load::Region region{pointer, bytes / 8, 1, bytes};
  GPUMAN_TRY(session->Fill(region, kSeed));
  GPUMAN_TRY(session->Synchronize());
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "check") {
      GPUMAN_ASSIGN(const auto wrong, session->Check(region, kSeed, 0));
      std::puts(wrong.words == 0 ? "whole" : "wrong");
    } else if (line.starts_with("spin ")) {
      GPUMAN_TRY(session->Spin(base::Millis(std::atoi(line.c_str() + 5))));
      std::puts("spinning");
    } else if (line == "managed") {
      driver::abi::CUdeviceptr managed = 0;
      GPUMAN_TRY(cuda.Invoke("cuMemAllocManaged", cuda.calls().cuMemAllocManaged, &managed,
                             std::size_t{1} << 20, static_cast<unsigned>(driver::abi::CU_MEM_ATTACH_GLOBAL)));
      std::puts("managed");
    }
    std::fflush(stdout);
  }
  return {};
}

}  // namespace

int RunHeldProcess(int argc, char** argv) {
  if (argc != 4) return 2;
  const int device = std::atoi(argv[2]);
  if (device < 0) {
    std::puts("ready");
    std::fflush(stdout);
    std::string line;
    std::getline(std::cin, line);
    return 0;
  }
  const auto done = Serve(device, static_cast<std::size_t>(std::atoi(argv[3])) << 20);
  if (!done) std::fprintf(stderr, "held process: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

HeldProcess::HeldProcess(int device, unsigned mebibytes) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  to_ = base::Fd(in[1]);
  from_ = base::Fd(out[0]);
  const base::Fd their_in(in[0]), their_out(out[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, their_in.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, their_out.get(), 1);
  std::vector<std::string> words{"/proc/self/exe", "--held", std::to_string(device),
                                 std::to_string(mebibytes)};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) std::abort();
  id_ = base::IdentityOf(pid).value_or(base::ProcessId{pid, 0});
  if (Heard() != "ready") std::fprintf(stderr, "the held process did not get ready\n");
}

HeldProcess::~HeldProcess() { Kill(); }

void HeldProcess::Kill() {
  if (id_.pid == 0) return;
  ::kill(id_.pid, SIGKILL);
  ::waitpid(id_.pid, nullptr, 0);
  id_.pid = 0;
}

void HeldProcess::Tell(const std::string& line) { (void)base::WriteAll(to_.get(), line + "\n").has_value(); }

std::string HeldProcess::Heard() {
  std::string line;
  for (char byte = 0; ::read(from_.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
  return line;
}

}  // namespace gpuman::suspend
