// Internal to codecs: the fields of options, for requests and for the store (base/json.h). Where durations
// are seconds, the names say so.
#pragma once

#include "base/json.h"
#include "spec/job_options.h"

namespace gpuman::spec {

template <typename V, base::json::Of<Retries> T>
void Fields(V& v, T& x) {
  v("count", x.count);
  v(v.in_seconds() ? "delay_s" : "delay_ms", x.delay);
  v("on_exit_codes", x.on_exit_codes);
}

// `x`: RunOptions, or what has them.
template <typename V, typename T>
void RunOptionFields(V& v, T& x) {
  v.Option("memory", x.memory);
  v.Option("soft", x.soft);
  v.Changed("priority", x.priority, kUsualPriority);
  v.Option(v.in_seconds() ? "grace" : "grace_ms", x.grace);
  v.Changed("preload", x.preload, true);
  v.Changed("share", x.share);
  v.Changed("weight", x.weight, 1);
  v.Changed("oversubscribe", x.oversubscribe);
  v.Option("device_profile", x.device_profile);
  v.Changed("mps", x.mps);
  v.Option("mps_threads", x.mps_threads);
}

// `x`: JobOptions, or what has them.
template <typename V, typename T>
void OptionFields(V& v, T& x) {
  RunOptionFields(v, x);
  v.Option("project", x.project);
  v.Option("conda_env", x.conda_env);
  v.Option("stdin", x.stdin_file);
  v.Option("stdout", x.stdout_file);
  v.Option("stderr", x.stderr_file);
  v.Option("host_memory", x.host_memory);
  v.Option("cpus", x.cpus);
  v.Option(v.in_seconds() ? "time_limit_s" : "time_limit_ms", x.time_limit);
  v.Option("begin", x.begin);
  v.Changed("hold", x.hold);
  v.Changed("preemptible", x.preemptible);
  v.Changed("retries", x.retries);
}

}  // namespace gpuman::spec
