// Checks that need a process of their own: what happens before cuInit, after a fork, after a fault that ends
// every context, or in another process's eyes. A probe is a function of this same program, run as
// `conformance_test --probe NAME`.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "base/fd.h"

namespace gpuman::conformance {

// Registers a probe; use PROBE(name) { … }. What it prints with Say comes back to the test.
struct ProbeRegistration {
  ProbeRegistration(const char* name, void (*function)());
};
#define PROBE(name)                                                                                \
  static void Probe_##name();                                                                      \
  static const ::gpuman::conformance::ProbeRegistration registration_##name{#name, &Probe_##name}; \
  static void Probe_##name()

// In a probe: one line to the test; the next line from it, empty when the test has gone.
void Say(const std::string& key, const std::string& value);
std::string Hear();

// The exit status of the probe, or 2 when there is none of this name.
int RunProbeHere(const std::string& name);

// A running probe. Killed if it still runs when the object goes.
class Probe {
 public:
  explicit Probe(const std::string& name, const std::map<std::string, std::string>& environment = {});
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  pid_t pid() const { return pid_; }
  // The value that the probe said for this key, lines before it kept; "(ended)" when it ended without.
  std::string Heard(const std::string& key);
  void Tell(const std::string& line);
  // Exit status, 128+N for a signal. Reads what is left to be heard first.
  int Wait();

 private:
  bool ReadLine();

  pid_t pid_ = -1;
  base::Fd to_, from_;
  std::string buffer_;
  std::map<std::string, std::string> heard_;
};

}  // namespace gpuman::conformance
