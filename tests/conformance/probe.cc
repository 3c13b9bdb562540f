#include "probe.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "base/file.h"

namespace gpuman::conformance {
namespace {

std::map<std::string, void (*)()>& Probes() {
  static std::map<std::string, void (*)()> probes;
  return probes;
}

}  // namespace

ProbeRegistration::ProbeRegistration(const char* name, void (*function)()) { Probes()[name] = function; }

void Say(const std::string& key, const std::string& value) {
  (void)base::WriteAll(STDOUT_FILENO, key + " " + value + "\n").has_value();
}

std::string Hear() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

int RunProbeHere(const std::string& name) {
  const auto probe = Probes().find(name);
  if (probe == Probes().end()) return 2;
  probe->second();
  return 0;
}

Probe::Probe(const std::string& name, const std::map<std::string, std::string>& environment) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
  base::Fd child_in(in[0]), child_out(out[1]);
  to_ = base::Fd(in[1]);
  from_ = base::Fd(out[0]);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::dup2(child_in.get(), STDIN_FILENO);
  ::dup2(child_out.get(), STDOUT_FILENO);
  for (const auto& [key, value] : environment) ::setenv(key.c_str(), value.c_str(), 1);
  ::execl("/proc/self/exe", "conformance_test", "--probe", name.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

Probe::~Probe() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  Wait();
}

bool Probe::ReadLine() {
  for (;;) {
    if (const auto end = buffer_.find('\n'); end != std::string::npos) {
      const auto line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (const auto space = line.find(' '); space != std::string::npos)
        heard_[line.substr(0, space)] = line.substr(space + 1);
      return true;
    }
    char chunk[4096];
    const auto got = ::read(from_.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
}

std::string Probe::Heard(const std::string& key) {
  for (;;) {
    if (const auto found = heard_.find(key); found != heard_.end()) return found->second;
    if (!ReadLine()) return "(ended)";
  }
}

void Probe::Tell(const std::string& line) { (void)base::WriteAll(to_.get(), line + "\n").has_value(); }

int Probe::Wait() {
  if (pid_ <= 0) return -1;
  to_.Close();
  while (ReadLine()) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace gpuman::conformance
