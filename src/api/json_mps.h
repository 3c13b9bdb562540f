// Internal to api/json.cc: the fields of mps_types.h.
#pragma once

#include "api/mps_types.h"
#include "base/json.h"

namespace gpuman::api {

constexpr bool IsRequest(const MpsOrder*) { return true; }
constexpr bool IsRequest(const MpsStop*) { return true; }
constexpr bool IsRequest(const MpsTermination*) { return true; }

template <typename V, base::json::Of<MpsProcess> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("user", x.user);
  v("name", x.name);
  v("job", x.job);
  v("tag", x.tag);
  v("threads", x.threads);
  v("memory", x.memory);
  v("limits_known", x.limits_known);
  v("namespace", x.name_space);
}

template <typename V, base::json::Of<MpsNamespace> T>
void Fields(V& v, T& x) {
  v.Required("name", x.name);
  v("job", x.job);
  v("threads", x.threads);
  v("memory", x.memory);
}

template <typename V, base::json::Of<MpsServer> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v("user", x.user);
  v("threads", x.threads);
  v("memory", x.memory);
  v("clients", x.clients);
  v("name", x.name);
  v("time_slice", x.time_slice);
  v("namespaces", x.namespaces);
}

template <typename V, base::json::Of<MpsGpu> T>
void Fields(V& v, T& x) {
  v("index", x.index);
  v.Required("uuid", x.uuid);
  v("name", x.name);
  v.Required("state", x.state);
  v("problem", x.problem);
  v("pid", x.pid);
  v("protocol", x.protocol);
  v("since", x.since);
  v("pipe_directory", x.pipe_directory);
  v("threads", x.threads);
  v("memory", x.memory);
  v("servers", x.servers);
  v("outside", x.outside);
  v("waiting", x.waiting);
}

template <typename V, base::json::Of<MpsReport> T>
void Fields(V& v, T& x) {
  v("program", x.program);
  v.Required("gpus", x.gpus);
  v("notes", x.notes);
}

template <typename V, base::json::Of<MpsOrder> T>
void Fields(V& v, T& x) {
  v("gpus", x.gpus);
  v.Option("threads", x.threads);
  v.Option("memory", x.memory);
}

template <typename V, base::json::Of<MpsStop> T>
void Fields(V& v, T& x) {
  v("gpus", x.gpus);
  v("force", x.force);
}

template <typename V, base::json::Of<MpsTermination> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
}

}  // namespace gpuman::api
