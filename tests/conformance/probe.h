// Checks that need a process of their own: before cuInit, after a fork, after a fault that ends every
// context, or from the view of another process. A probe is a function of this program, run as
// `conformance_test --probe NAME`.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "base/fd.h"

namespace gpuman::conformance {

// Registers a probe; use PROBE(name) { … }. The test receives what the probe prints with Say.
struct ProbeRegistration {
  ProbeRegistration(const char* name, void (*function)());
};
#define PROBE(name)                                                                                \
  static void Probe_##name();                                                                      \
  static const ::gpuman::conformance::ProbeRegistration registration_##name{#name, &Probe_##name}; \
  static void Probe_##name()

// For probes: Say sends one line to the test; Hear returns the next line from it, empty if the test is gone.
void Say(const std::string& key, const std::string& value);
std::string Hear();

// Returns the exit status of the probe, or 2 if there is no probe with this name.
int RunProbeHere(const std::string& name);

// A running probe. The destructor kills it if it still runs.
class Probe {
 public:
  explicit Probe(const std::string& name, const std::map<std::string, std::string>& environment = {});
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  pid_t pid() const { return pid_; }
  // The value that the probe said for this key; lines before it are kept. "(ended)" if the probe ended
  // without it.
  std::string Heard(const std::string& key);
  void Tell(const std::string& line);
  // The exit status, 128+N for a signal. Reads all remaining lines first.
  int Wait();

 private:
  bool ReadLine();

  pid_t pid_ = -1;
  base::Fd to_, from_;
  std::string buffer_;
  std::map<std::string, std::string> heard_;
};

}  // namespace gpuman::conformance
